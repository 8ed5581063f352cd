"""The environment of processes that work on a throw-away installation, whatever the caller's own says."""

from __future__ import annotations

import os

from reminders.settings import Settings


def child_environment(settings: Settings, **more: str) -> dict[str, str]:
    """The caller's environment without its settings; those of `settings` that say where things are; and `more`.

    Both addresses and the signing secret must be known. Webhooks may go to loopback.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REMINDERS_")}
    assert settings.database_url is not None
    assert settings.redis_url is not None
    assert settings.webhook_secret is not None
    return {
        **inherited,
        "DATABASE_URL": settings.database_url.reveal(),
        "REDIS_URL": settings.redis_url.reveal(),
        "REMINDERS_HOME": str(settings.home),
        "REMINDERS_SCHEMA": settings.schema,
        "REMINDERS_WEBHOOK_SECRET": settings.webhook_secret.reveal(),
        **({"REMINDERS_KEYS": " ".join(key.reveal() for key in settings.keys)} if settings.keys else {}),
        "REMINDERS_ALLOW_PRIVATE": "yes",
        **more,
    }

"""Flower can run any task and stop workers: it gets a password, from nowhere that a process list shows, or ends."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from reminders.domain.errors import SettingsError
from reminders.settings import Settings


def flower_auth(settings: Settings) -> str:
    """`user:password` for Flower. Raises `SettingsError` when it is not set or Flower could not compare it."""
    if settings.flower_auth is None:
        raise SettingsError(
            "Flower can run any task and stop workers, so it does not start without a password\n"
            "Set REMINDERS_FLOWER_AUTH=user:password"
        )
    auth = settings.flower_auth.reveal()
    if not auth.isascii():
        raise SettingsError("REMINDERS_FLOWER_AUTH holds characters that Flower cannot compare\nUse ASCII only")
    return auth


def guard_flower(app: Any, settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Close the Flower that is starting in this process. Raises `SettingsError` when there is no password for it.

    Set here and not through `FLOWER_BASIC_AUTH`, which a comma in the password would split into two weaker ones.
    """
    auth = flower_auth(settings)
    environ.pop("FLOWER_UNAUTHENTICATED_API", None)

    from flower.options import default_options  # noqa: PLC0415 - only one process line has Flower
    from flower.views.monitor import Metrics  # noqa: PLC0415
    from tornado.web import authenticated  # noqa: PLC0415

    default_options.basic_auth = [auth]
    # The one page with contents that Flower 2.2 leaves open.
    Metrics.get = authenticated(Metrics.get)
    # Flower doubles its pause after every failed attempt without a limit: let kombu wait for the broker instead.
    app.conf.broker_transport_options.update(connect_retries_timeout=None, interval_max=5)

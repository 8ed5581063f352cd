"""`reminders env`: the addresses and secrets of the running embedded installation, for an application beside it."""

from __future__ import annotations

import shlex
from dataclasses import replace

import click

from reminders.cli.printing import print_json
from reminders.cli.session import command_settings
from reminders.cli.values import json_option
from reminders.cli.waiting import told_if_slow
from reminders.domain.errors import ServiceUnavailable
from reminders.embedded import Services, attach
from reminders.settings import Secret, Settings


@click.command(short_help="Print DATABASE_URL, REDIS_URL and secrets of what `up` runs.")
@json_option
def env(*, as_json: bool) -> None:
    """Print what a program needs to use the same installation as `reminders up`, as `export` lines for a shell.

    eval "$(reminders env)" sets them. They hold passwords and secrets of this home, and work as long as `up` runs; nothing is
    started here. What is set already is printed as it is.
    """
    found = environment_of(_located(command_settings()))
    if as_json:
        print_json(dict(found))
    else:
        for name, value in found.items():
            click.echo(f"export {name}={shlex.quote(value)}")


def environment_of(settings: Settings) -> dict[str, str]:
    """What other processes need to find the same installation."""
    known = {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "REMINDERS_WEBHOOK_SECRET": settings.webhook_secret,
        "REMINDERS_FLOWER_AUTH": settings.flower_auth,
    }
    found = {name: secret.reveal() for name, secret in known.items() if secret is not None}
    if settings.keys:
        found["REMINDERS_KEYS"] = " ".join(key.reveal() for key in settings.keys)
    return {**found, "REMINDERS_ALLOW_PRIVATE": "1" if settings.allow_private else "0"}


def _located(settings: Settings) -> Settings:
    """With the addresses of the servers that run. Raises `ServiceUnavailable` where one that is needed does not."""
    home = settings.home.expanduser().resolve()
    if settings.database_url is not None and settings.redis_url is not None:
        return settings
    with told_if_slow(f"the Postgres and Redis of {home} are being started or stopped"):
        running = attach(settings.home) or Services("", "")
    database_url = settings.database_url or (Secret(running.database_url) if running.database_url else None)
    redis_url = settings.redis_url or (Secret(running.redis_url) if running.redis_url else None)
    if database_url is None or redis_url is None:
        missing = "Postgres" if database_url is None else "Redis"
        raise ServiceUnavailable(
            f"No {missing} runs in {home}.\nStart `reminders up` there first, or set REMINDERS_HOME to the folder where it runs."
        )
    return replace(settings, database_url=database_url, redis_url=redis_url)

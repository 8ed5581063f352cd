"""`reminders up`: every process line in one terminal, on embedded services where no address is set."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import click
from rich.console import Console
from rich.text import Text

from reminders.celery_options import QUEUES
from reminders.cli.session import session
from reminders.process_lines import FLOWER_PORT, beat_child, flower_child, worker_children
from reminders.settings import Secret, Settings
from reminders.supervise import Child, supervise

COLOURS = (
    "cyan",
    "green",
    "yellow",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_yellow",
    "bright_magenta",
)


@click.command()
@click.option("--web/--no-web", default=True, help="Start Flower too.", show_default=True)
@click.option(
    "--loglevel",
    type=click.Choice(["DEBUG", "INFO", "WARNING"], case_sensitive=False),
    default="INFO",
    show_default=True,
)
def up(web: bool, loglevel: str) -> None:
    """Run everything in this terminal: scanner, workers, beat and Flower. Ctrl-C stops it cleanly.

    Where DATABASE_URL or REDIS_URL is unset, Postgres and Redis are started under REMINDERS_HOME and stop with it.
    """
    with session(broker=True) as current:
        settings = current.settings
        if settings.flower_auth is None:
            settings = replace(settings, flower_auth=Secret(f"operator:{secrets.token_urlsafe(12)}"))
        _announce(settings, web)
        os.environ.update(_environment(settings))
        children = [
            child for queue in QUEUES for child in worker_children(settings, [queue], None, None, loglevel.upper())
        ]
        children.append(beat_child(settings))
        if web:
            children.append(flower_child(settings, os.environ))
        printer = _printer(children)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[_Lines(printer)])
        code = supervise(children, settings.grace, output=printer)
    click.echo("Stopped.")
    sys.exit(code)


def _announce(settings: Settings, web: bool) -> None:
    if web and settings.flower_auth is not None:
        user, _, password = settings.flower_auth.reveal().partition(":")
        port = os.environ.get("PORT", FLOWER_PORT)
        click.echo(f"Flower: http://127.0.0.1:{port}  user {user}  password {password}")
    click.echo("Try `reminders status` in another terminal. Ctrl-C stops everything.")


def _environment(settings: Settings) -> Mapping[str, str]:
    """What the processes need to find the same installation."""
    known = {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "REMINDERS_WEBHOOK_SECRET": settings.webhook_secret,
        "REMINDERS_FLOWER_AUTH": settings.flower_auth,
    }
    found = {name: secret.reveal() for name, secret in known.items() if secret is not None}
    return {**found, "REMINDERS_ALLOW_PRIVATE": "1" if settings.allow_private else "0", "PYTHONUNBUFFERED": "1"}


def _printer(children: list[Child]) -> Callable[[str, str], None]:
    console = Console(highlight=False, soft_wrap=True)
    names = [*dict.fromkeys(child.name for child in children), "up"]
    width = max(map(len, names))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}

    def show(name: str, line: str) -> None:
        prefix = Text(f"{name:<{width}} | ", style=colours.get(name, "white"))
        console.print(prefix.append(Text.from_ansi(line, style="default")))

    return show


class _Lines(logging.Handler):
    """The supervisor's own log, as one more prefix."""

    def __init__(self, show: Callable[[str, str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show("up", record.getMessage())

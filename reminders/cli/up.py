"""`reminders up`: every process line in one terminal, on embedded services where no address is set."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import click
from rich.console import Console
from rich.text import Text

from reminders.celery_options import QUEUES
from reminders.cli.env import environment_of
from reminders.cli.session import command_settings, session
from reminders.cli.status import why_broker_is_away
from reminders.domain.errors import ServiceUnavailable, SettingsError
from reminders.embedded import kept_running
from reminders.flower_port import LAST_PORT, PORTS
from reminders.ledger.database import Database, check_connection
from reminders.log_lines import formatter_of
from reminders.process_lines import FLOWER_PORT, beat_child, flower_child, worker_children
from reminders.readiness import check_installation
from reminders.settings import Secret, Settings
from reminders.supervise import Child, supervise

PORTS_TRIED = 100
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


APART = [[queue] for queue in QUEUES]
TOGETHER = [["scan"], ["deliver", "retry", "maintenance"], ["alone"]]
"""The queues of each worker, by default and with `--small`. The scan and what may kill its worker stay apart in any case."""


@click.command()
@click.option("--web/--no-web", default=True, help="Start Flower too.", show_default=True)
@click.option(
    "--small", is_flag=True, help="For one machine of 512 MB: one process for deliveries, retries and maintenance."
)
@click.option(
    "--loglevel",
    type=click.Choice(["DEBUG", "INFO", "WARNING"], case_sensitive=False),
    default="INFO",
    show_default=True,
)
def up(web: bool, small: bool, loglevel: str) -> None:
    """Run everything in this terminal: scanner, workers, beat and Flower. Ctrl-C stops it cleanly.

    Where DATABASE_URL or REDIS_URL is unset, Postgres and Redis are started under REMINDERS_HOME and stop with it; one
    that dies meanwhile is started again. Flower listens on PORT (default 5555), or on the next port that is free; where
    PORT is set, on all addresses of this machine.
    """
    given = command_settings()
    _refuse_silent_services(given)
    postgres, redis = given.database_url is None, given.redis_url is None
    with (
        session(given, broker=True, workers_follow=True) as current,
        kept_running(given.home, postgres=postgres, redis=redis),
    ):
        settings = current.settings
        check_installation(settings)
        made_here = settings.flower_auth is None
        if made_here:
            settings = replace(settings, flower_auth=Secret(f"operator:{secrets.token_urlsafe(12)}"))
        port = _flower_port(os.environ) if web else None
        _announce(settings, port, show_password=made_here)
        os.environ.update({**environment_of(settings), "PYTHONUNBUFFERED": "1"})
        processes = 1 if small else None
        children = [
            child
            for queues in (TOGETHER if small else APART)
            for child in worker_children(settings, queues, processes, None, loglevel.upper())
        ]
        children.append(beat_child(settings))
        if port is not None:
            children.append(_flower_child(settings, port))
        printer = _printer(children) if settings.log == "lines" else _as_it_is
        own = _Lines(printer)
        if settings.log == "json":
            own.setFormatter(formatter_of(settings, "up"))
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[own])
        code = supervise(children, settings.grace, output=printer)
    if settings.log != "json":
        click.echo("Stopped.")
    sys.exit(code)


def _refuse_silent_services(given: Settings) -> None:
    """Before anything is started: processes that wait for a mistyped address look as if they worked."""
    if given.redis_url is not None and (away := why_broker_is_away(given)) is not None:
        raise ServiceUnavailable(
            f"Redis does not answer: {away}\nNothing was started. Check REDIS_URL, or unset it to use an embedded Redis."
        )
    if given.database_url is not None:
        database = Database(given.database_url.reveal(), schema=given.schema, pool_size=1)
        try:
            check_connection(database)
        finally:
            database.close()


def _flower_port(environ: Mapping[str, str]) -> int:
    """The port that `PORT` asks for, or the next one that nobody listens on. Raises `SettingsError`."""
    text = environ.get("PORT") or str(FLOWER_PORT)
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= LAST_PORT:
        raise SettingsError(f"PORT: {text[:20]!r} is no port\nWrite a number from 1 to {LAST_PORT}")
    wanted = int(text)
    address = "0.0.0.0" if environ.get("PORT") else "127.0.0.1"  # noqa: S104 - as `flower_child` has it
    tried = range(wanted, min(wanted + PORTS_TRIED, LAST_PORT + 1))
    found = next((port for port in tried if _is_free(address, port)), None)
    if found is None:
        raise ServiceUnavailable(
            f"Flower finds no free port from {wanted} to {tried[-1]}\nSet PORT to another one, or start without it: --no-web"
        )
    return found


def _flower_child(settings: Settings, port: int) -> Child:
    """Flower on the port that was announced; should that be taken when it starts, on the next one that is free."""
    flower = flower_child(settings, os.environ)
    # Of an option that is given twice, the last counts.
    return replace(flower, argv=(*flower.argv, f"--port={port}"), environ={PORTS: str(PORTS_TRIED)})


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: what is left of closed connections is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def _announce(settings: Settings, port: int | None, *, show_password: bool) -> None:
    """For the person at the terminal; where the output is a platform's log, nobody's own password goes there."""
    if settings.log == "json":
        return
    if port is not None and settings.flower_auth is not None:
        user, _, password = settings.flower_auth.reveal().partition(":")
        shown = password if show_password else "as in REMINDERS_FLOWER_AUTH"
        click.echo(f"Flower: http://127.0.0.1:{port}  user {user}  password {shown}")
    click.echo("Try `reminders status` in another terminal, in this same folder. Ctrl-C stops everything.")


def _printer(children: list[Child]) -> Callable[[str, str], None]:
    console = Console(highlight=False, soft_wrap=True)
    names = [*dict.fromkeys(child.name for child in children), "up"]
    width = max(map(len, names))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}

    def show(name: str, line: str) -> None:
        prefix = Text(f"{name:<{width}} | ", style=colours.get(name, "white"))
        console.print(prefix.append(Text.from_ansi(line, style="default")))

    return show


def _as_it_is(_name: str, line: str) -> None:
    """For programs: each line of JSON names its process itself."""
    click.echo(line)


class _Lines(logging.Handler):
    """The supervisor's own log, as one more prefix."""

    def __init__(self, show: Callable[[str, str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show("up", self.format(record))

"""`reminders demo`: the whole pipeline on a throw-away stack, with a receiver, in under a minute."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from reminders.broker.gauge import RedisGauge
from reminders.cli.session import bring_to_head
from reminders.domain.errors import RemindersError, ServiceUnavailable
from reminders.embedded import running
from reminders.ledger.database import Database
from reminders.ledger.summary import Summary, summary
from reminders.operate.sample import TO_CANCEL, Expected, sample_csv
from reminders.receiver.report import Report
from reminders.receiver.server import Receiver
from reminders.settings import Secret, Settings

PATIENCE = 75.0
"""Seconds until the demo gives up on reminders that do not reach their end."""
STATES = ("pending", "leased", "published", "sending", "delivered", "cancelled", "dead")


@click.command()
def demo() -> None:
    """Schedule, scan, publish, claim, call, finalize: see it happen, on services of its own that end with it.

    Exits 0 only if every reminder ended as it must, and the receiver saw each exactly once.
    """
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="reminders-demo-") as folder:
        # Postgres runs as another user when we are root, and must reach its folder below.
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        console.print("Starting Postgres and Redis of our own ...")
        with running(home) as services:
            master = Secret(secrets.token_urlsafe(32))
            settings = Settings(
                home=home,
                database_url=Secret(services.database_url),
                redis_url=Secret(services.redis_url),
                webhook_secret=master,
            )
            database = Database(services.database_url, schema=settings.schema)
            try:
                with Receiver("127.0.0.1", 0, master=master) as receiver:
                    ended = _play(console, settings, database, receiver)
            finally:
                database.close()
    sys.exit(0 if ended else 1)


def _play(console: Console, settings: Settings, database: Database, receiver: Receiver) -> bool:
    bring_to_head(settings, database)
    environ = _environment(settings)
    with _stack(console, settings, environ):
        _wait_for_workers(settings)
        console.print(f"A receiver listens at {receiver.urls[0]}; it fails twice on one path and refuses on another.")
        sample = settings.home / "sample.csv"
        sample.write_text(sample_csv(receiver.urls[0], datetime.now(UTC)))
        _command(console, environ, "import", str(sample))
        listed = _command(
            console, environ, "list", "--tenant", "demo-shop", "--reference", TO_CANCEL, "--json", quiet=True
        )
        _command(console, environ, "cancel", json.loads(listed)["id"])
        found = _watch(console, database)
        letters = _command(console, environ, "dlq", "list", quiet=True)
    report = receiver.report()
    console.print(_table(found, report))
    faults = _faults(found, report)
    for fault in faults:
        console.print(f"[bold red]Not as it must be:[/] {fault}")
    if not faults:
        console.print("[bold green]All as it must be.[/] The one for review:")
        console.print(letters.rstrip(), soft_wrap=True)
        console.print(
            "Next: `reminders up` runs it all in one terminal, `reminders receiver` in another takes deliveries,\n"
            "`reminders schedule --help` makes your first one; the README shows each step."
        )
    return not faults


def _environment(settings: Settings) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REMINDERS_")}
    assert settings.database_url is not None
    assert settings.redis_url is not None
    assert settings.webhook_secret is not None
    return {
        **inherited,
        "DATABASE_URL": settings.database_url.reveal(),
        "REDIS_URL": settings.redis_url.reveal(),
        "REMINDERS_HOME": str(settings.home),
        "REMINDERS_WEBHOOK_SECRET": settings.webhook_secret.reveal(),
        "REMINDERS_ALLOW_PRIVATE": "yes",
        "REMINDERS_RETRY_DELAYS": "1s,2s,4s",
        "COLUMNS": "120",
    }


def _own(*arguments: str) -> list[str]:
    """The `reminders` command of this very installation."""
    return [sys.executable, "-c", "from reminders.cli.app import main; main()", *arguments]


@contextmanager
def _stack(console: Console, settings: Settings, environ: dict[str, str]) -> Iterator[None]:
    """`reminders up` in the background, its output in a file that is shown if the demo fails."""
    console.print("[dim]$ reminders up[/]  (scanner, workers and beat; in the background)")
    path = settings.home / "up.log"
    with path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            _own("up", "--no-web"), env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            yield
        except BaseException:
            console.print(path.read_text(errors="replace")[-4000:], style="dim", markup=False)
            raise
        finally:
            process.terminate()
            process.wait(settings.grace + 10)


def _wait_for_workers(settings: Settings) -> None:
    """Return once the scanner and a worker have announced themselves, so that lateness is not their start-up."""
    gauge = RedisGauge(settings)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        queues = {queue for worker in gauge.workers() or () for queue in worker.queues}
        if {"scan", "deliver"} <= queues:
            gauge.close()
            return
        time.sleep(0.1)
    raise ServiceUnavailable("the scanner and the workers did not start; try `reminders up` to see why")


def _command(console: Console, environ: dict[str, str], *arguments: str, quiet: bool = False) -> str:
    if not quiet:
        console.print(f"[dim]$ reminders {' '.join(arguments)}[/]", soft_wrap=True)
    done = subprocess.run(_own(*arguments), env=environ, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode != 0:
        raise RemindersError(f"`reminders {' '.join(arguments)}` failed:\n{done.stderr or done.stdout}")
    if not quiet:
        console.print(done.stdout.rstrip(), soft_wrap=True)
    return done.stdout


def _watch(console: Console, database: Database) -> Summary:
    """Show the counts until every reminder has ended, or patience has."""
    end = time.monotonic() + PATIENCE
    expected = Expected()
    before = 0
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        while True:
            found = summary(database)
            ended = sum(found.counts.get(status, 0) for status in ("delivered", "cancelled", "dead", "expired"))
            live.update(_progress(found, ended, expected.total))
            if not console.is_terminal and ended != before:
                console.print(f"{ended} of {expected.total} have ended")
            before = ended
            if ended >= expected.total or time.monotonic() > end:
                return found
            time.sleep(0.25)


def _progress(found: Summary, ended: int, total: int) -> Table:
    table = Table(title=f"{ended} of {total} have ended", title_justify="left")
    for state in STATES:
        table.add_column(state, justify="right", min_width=9)
    table.add_row(*[str(found.counts.get(state, 0)) for state in STATES])
    return table


def _table(found: Summary, report: Report) -> Table:
    table = Table(title="What became of them", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    rows = [
        ("delivered", found.counts.get("delivered", 0)),
        ("  of them retried", found.retried),
        ("dead, for review", found.counts.get("dead", 0)),
        ("cancelled", found.counts.get("cancelled", 0)),
        ("applied by the receiver", report.effects),
        ("repeats it saw", report.repeats),
        (f"lateness p50 of the {found.on_time} due ahead", _seconds(found.late_p50)),
        ("lateness p99", _seconds(found.late_p99)),
    ]
    for label, value in rows:
        table.add_row(label, str(value))
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _faults(found: Summary, report: Report) -> list[str]:
    expected = Expected()
    compared = [
        ("delivered", found.counts.get("delivered", 0), expected.delivered),
        ("retried", found.retried, expected.retried),
        ("dead", found.counts.get("dead", 0), expected.dead),
        ("cancelled", found.counts.get("cancelled", 0), expected.cancelled),
        ("reminders in all", sum(found.counts.values()), expected.total),
        ("applied by the receiver", report.effects, expected.delivered),
        ("repeats", report.repeats, 0),
    ]
    return [f"{what}: {seen}, expected {wanted}" for what, seen, wanted in compared if seen != wanted]

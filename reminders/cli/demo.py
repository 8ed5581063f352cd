"""`reminders demo`: the whole pipeline on a throw-away stack, with a receiver, in under a minute."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click
from rich.console import Console

from reminders.broker.gauge import RedisGauge
from reminders.cli.demo_page import FarSides, faults, outcome_table, watch
from reminders.cli.session import bring_to_head, signals_unwind
from reminders.domain.errors import RemindersError, ServiceUnavailable
from reminders.embedded import running, throwaway_home
from reminders.ledger.database import Database
from reminders.ledger.summary import summary
from reminders.operate.child_environment import child_environment
from reminders.operate.sample import KIND, TENANT, TO_CANCEL, sample_csv, write_templates
from reminders.receiver.mail_catcher import MailCatcher
from reminders.receiver.server import Receiver
from reminders.receiver.sms_catcher import SmsCatcher
from reminders.settings import Secret, Settings
from reminders.supervised import LIFELINE, own_command

PATIENCE = 75.0
"""Seconds until the demo gives up on reminders that do not reach their end."""


@click.command()
def demo() -> None:
    """Schedule, scan, publish, claim, call, finalize: see it happen, on services of its own that end with it.

    Exits 0 only if every reminder ended as it must, and the receiver saw each exactly once.
    """
    console = Console(highlight=False)
    # Not after kill -9: then its processes end by themselves, and the next demo clears the rest away.
    with signals_unwind(), throwaway_home("demo") as home:
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
                with (
                    Receiver("127.0.0.1", 0, master=master) as receiver,
                    MailCatcher(0) as mails,
                    SmsCatcher(0) as texts,
                ):
                    ended = _play(console, settings, database, FarSides(receiver, mails, texts))
            finally:
                database.close()
    sys.exit(0 if ended else 1)


def _play(console: Console, settings: Settings, database: Database, far: FarSides) -> bool:
    bring_to_head(settings, database)
    environ = child_environment(
        settings,
        REMINDERS_RETRY_DELAYS="1s,2s,4s",
        REMINDERS_SMTP_URL=far.mails.url,
        REMINDERS_MAIL_FROM="Demo shop <shop@example.com>",
        REMINDERS_SMS_URL=far.texts.url,
        COLUMNS="120",
    )
    url = far.receiver.urls[0]
    with _stack(console, settings, environ):
        _wait_for_workers(settings)
        console.print(f"A receiver listens at {url}; it fails twice on one path and refuses on another.")
        console.print("A mail server and an SMS gateway of our own catch what is sent to people.")
        for channel, parts in write_templates(settings.home).items():
            files = [word for part, file in parts.items() for word in (f"--{part}", str(file))]
            _command(
                console,
                environ,
                "template",
                "add",
                "--all-tenants",
                "--kind",
                KIND,
                "--channel",
                channel,
                *files,
                quiet=True,
            )
        sample = settings.home / "sample.csv"
        sample.write_text(sample_csv(url, datetime.now(UTC)))
        _command(console, environ, "import", str(sample))
        listed = _command(console, environ, "list", "--tenant", TENANT, "--reference", TO_CANCEL, "--json", quiet=True)
        _command(console, environ, "cancel", json.loads(listed)["id"])
        found = watch(console, lambda: summary(database), PATIENCE)
        letters = _command(console, environ, "dlq", "list", quiet=True)
    seen = far.seen()
    console.print(outcome_table(found, seen))
    for sent in seen.shown:
        console.print(f"[dim]{sent}[/]", soft_wrap=True)
    wrong = faults(found, seen)
    for fault in wrong:
        console.print(f"[bold red]Not as it must be:[/] {fault}")
    if not wrong:
        console.print("[bold green]All as it must be.[/] The one for review:")
        console.print(letters.rstrip(), soft_wrap=True)
        console.print(
            "Next: `reminders up` runs it all in one terminal, `reminders receiver` in another takes deliveries,\n"
            "`reminders schedule --help` makes your first one; the README shows each step."
        )
    return not wrong


@contextmanager
def _stack(console: Console, settings: Settings, environ: dict[str, str]) -> Iterator[None]:
    """`reminders up` in the background, its output in a file that is shown if the demo fails."""
    console.print("[dim]$ reminders up[/]  (scanner, workers and beat; in the background)")
    path = settings.home / "up.log"
    patience = settings.grace + 10
    held, lifeline = os.pipe()
    with path.open("wb") as log, os.fdopen(held, "rb"), os.fdopen(lifeline, "wb"):
        process = subprocess.Popen(  # noqa: S603 - our own command
            own_command("up", "--no-web"),
            env={**environ, LIFELINE: f"{held} {patience}"},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            pass_fds=(held,),
        )
        try:
            yield
        except Exception:
            console.print(path.read_text(errors="replace")[-4000:], style="dim", markup=False)
            raise
        finally:
            process.terminate()
            process.wait(patience)


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
    done = subprocess.run(own_command(*arguments), env=environ, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode != 0:
        raise RemindersError(f"`reminders {' '.join(arguments)}` failed:\n{done.stderr or done.stdout}")
    if not quiet:
        console.print(done.stdout.rstrip(), soft_wrap=True)
    return done.stdout

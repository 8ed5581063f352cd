"""`reminders scan`: what beat's tick makes the scanner do, from the command line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from threading import Event

import click

from reminders import bootstrap
from reminders.calendar.instants import parse_instant
from reminders.cli.printing import print_json
from reminders.cli.session import session
from reminders.cli.status import why_broker_is_away
from reminders.cli.values import json_option
from reminders.domain.errors import InvalidInput, ServiceUnavailable
from reminders.signalled import set_from_handler


@click.command(short_help="Lease and publish what is due, without waiting for a tick.")
@click.option("--hold", is_flag=True, help="Keep looking for one period (REMINDERS_SCAN_EVERY), as the scanner does.")
@click.option("--now", hidden=True, help="Another clock than the database's; for tests.")
@json_option
@click.pass_context
def scan(context: click.Context, *, hold: bool, now: str | None, as_json: bool) -> None:
    """Lease what is due and publish it, as far as there is room for it in flight. Any number of scans may run at once.

    Exits 3 if the broker did not take all that was leased; it is leased again after REMINDERS_LEASE.
    """
    instant = None if now is None else _aware(now)
    with session(broker=True) as ledger:
        away = why_broker_is_away(ledger.settings)
        if away is not None:
            raise ServiceUnavailable(f"Redis does not answer: {away}\nNothing was leased. Check REDIS_URL.")
        settings = ledger.settings
        found = bootstrap.scan_ledger_of(settings, ledger.database, instant)
        scanner = bootstrap.scan_of(settings, found)
        if hold:
            # In a thread: a signal's handler that sets an event in the thread that waits for it may wait for itself.
            with _stopped_by_signals() as stop, ThreadPoolExecutor(1) as other_thread:
                sent = other_thread.submit(scanner.hold, ledger.settings.scan_every, stop).result()
            leased, full = None, None
        else:
            done = scanner.once()
            leased, sent, full = done.leased, done.published, done.full
    if as_json:
        print_json({"leased": leased, "published": sent, "full": full})
    elif leased is None:
        print(f"{sent:,} published")
    else:
        print(f"{leased:,} leased, {sent:,} published{'; more is due' if full else ''}")
    if leased is not None and sent < leased:
        context.exit(3)


def _aware(text: str) -> datetime:
    instant = parse_instant(text, "now")
    if instant.tzinfo is None:
        raise InvalidInput("now", "needs Z or an offset")
    return instant


@contextmanager
def _stopped_by_signals() -> Iterator[Event]:
    stop = Event()
    before = {
        number: signal.signal(number, lambda *_: set_from_handler(stop)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

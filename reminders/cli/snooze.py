"""`reminders snooze`: one reminder, put off."""

from __future__ import annotations

from datetime import timedelta

import click

from reminders.cli.schedule import print_scheduled
from reminders.cli.session import session
from reminders.cli.values import json_option, read_due_at, read_id
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_instant
from reminders.ledger import changing
from reminders.pipeline.schedule import resolve_instant


@click.command(short_help="Put one reminder off.")
@click.argument("reminder_id", metavar="ID")
@click.option("--until", help="2026-05-01T09:30 with --zone, or with Z or +02:00; or +10s, +5m, +1h30m from now.")
@click.option("--zone", help="IANA zone, such as Europe/Berlin; needed for a time without Z or offset.")
@click.option("--by", help="10m, 2h: so long after it is due, or from now if that has passed.")
@json_option
def snooze(reminder_id: str, *, until: str | None, zone: str | None, by: str | None, as_json: bool) -> None:
    """Put one reminder off that has not ended; of a series only this one moves. Its expiry stays.

    Refused while it is being sent, when it may have been sent, and when it has ended.
    """
    wanted = read_id(reminder_id)
    if (until is None) == (by is None):
        raise click.UsageError("Give --until or --by, and not both.")
    instant = None
    if until is not None:
        instant = checked_instant("until", resolve_instant("until", read_due_at(until, "until"), zone))
    with session() as ledger, ledger.transaction() as connection:
        put_off = changing.snooze(
            connection, ledger.settings.schema, wanted, until=instant, by=None if by is None else _read_span(by)
        )
    print_scheduled(put_off, zone, "snoozed", as_json=as_json)


def _read_span(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise InvalidInput("by", f"{text[:40]!r} is no span of time; write 90s, 10m or 2h") from None

"""`reminders reschedule`: to another time."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from reminders.calendar.instants import instant_text
from reminders.cli.schedule import print_scheduled
from reminders.cli.session import session
from reminders.cli.values import json_option, overdue_option, read_due_at, read_id
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_instant
from reminders.intake.checking import OVERDUE_AFTER
from reminders.ledger import changing
from reminders.pipeline.schedule import resolve_instant


@click.command(short_help="Move a reminder to another time.")
@click.argument("reminder_id", metavar="ID")
@click.option(
    "--due-at", required=True, help="2026-05-01T09:30 with --zone, or with Z or +02:00; or +10s, +5m, +1h30m."
)
@click.option("--zone", help="IANA zone, such as Europe/Berlin; needed for a time without Z or offset.")
@overdue_option
@click.option("--expires-at", help="Another expiry; without it the expiry keeps its distance.")
@json_option
def reschedule(
    reminder_id: str, *, due_at: str, zone: str | None, overdue: str, expires_at: str | None, as_json: bool
) -> None:
    """Move a reminder to another time; also revives a cancelled, expired or dead one.

    Refused while it is being sent, when it may have been sent, and when it is delivered.
    """
    wanted = read_id(reminder_id)
    due = checked_instant("due_at", resolve_instant("due_at", read_due_at(due_at), zone))
    if overdue != "send" and due < datetime.now(UTC) - OVERDUE_AFTER:
        raise InvalidInput(
            "due_at",
            f"is {instant_text(due)}, over 24 hours ago; --overdue send moves it there, and it is sent at once",
        )
    expiry = None
    if expires_at is not None:
        expiry = checked_instant(
            "expires_at", resolve_instant("expires_at", read_due_at(expires_at, "expires_at"), zone)
        )
    with session() as ledger, ledger.transaction() as connection:
        moved = changing.reschedule(
            connection, ledger.settings.schema, wanted, due_at=due, zone=zone, expires_at=expiry
        )
    print_scheduled(moved, zone, "rescheduled", as_json=as_json)

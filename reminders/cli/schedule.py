"""`reminders schedule`: one reminder, in a transaction of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import click

from reminders.cli.printing import for_people, instant_for_people, print_json
from reminders.cli.session import command_settings, session
from reminders.cli.values import json_option, overdue_option, read_data, read_due_at
from reminders.domain.allowed_places import AllowedPlaces
from reminders.domain.errors import Conflict, InvalidInput
from reminders.intake.checking import OVERDUE_AFTER, long_past
from reminders.ledger import scheduling
from reminders.ledger.allowed_places import KeptAllowedPlaces
from reminders.ledger.scheduling import ScheduledReminder
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings


@click.command(short_help="Schedule one reminder.")
@click.option("--tenant", required=True, help="Whose user it is.")
@click.option("--user", required=True, help="Who is reminded.")
@click.option("--kind", required=True, help="What sort of reminder it is, such as invoice-due.")
@click.option("--channel", required=True, help="How it is delivered: webhook, log, or another installed channel.")
@click.option("--to", "destination", required=True, help="Where it is delivered: for channel webhook a URL.")
@click.option(
    "--due-at", required=True, help="2026-05-01T09:30 with --zone, or with Z or +02:00; or +10s, +5m, +1h30m."
)
@click.option("--zone", help="IANA zone, such as Europe/Berlin; needed for a time without Z or offset.")
@overdue_option
@click.option("--reference", help="What it is about: an order, an invoice. It identifies the reminder.")
@click.option("--slot", help="Tells apart several reminders about one thing, such as day-before.")
@click.option("--data", help="A JSON object for the receiver, or @FILE (@- is standard input).")
@click.option("--expires-at", help="When sending has become worse than not sending; written like --due-at.")
@json_option
def schedule(
    *,
    tenant: str,
    user: str,
    kind: str,
    channel: str,
    destination: str,
    due_at: str,
    zone: str | None,
    reference: str | None,
    slot: str | None,
    data: str | None,
    overdue: str,
    expires_at: str | None,
    as_json: bool,
) -> None:
    """Schedule one reminder.

    Scheduling the same again (tenant, user, kind, channel, slot and reference, or without a reference the instant)
    changes nothing and shows the reminder as it stands. A time from now, such as +10s, is another instant each time.
    """
    settings = command_settings()
    # What is wrong with the request is said before any server is started or asked.
    request = to_request(
        lambda name: registry.load(name, settings),
        partial(_allowed_to, settings),
        tenant_id=tenant,
        user_id=user,
        kind=kind,
        channel=channel,
        destination=destination,
        due_at=read_due_at(due_at),
        zone=zone,
        reference=reference,
        slot=slot,
        data=read_data(data),
        expires_at=None if expires_at is None else read_due_at(expires_at, "expires_at"),
    )
    deduplicates = {channel: registry.load(channel, settings).deduplicates}
    with session(settings) as ledger, ledger.transaction() as connection:
        answer = scheduling.insert(connection, settings.schema, [request], deduplicates)[0]
        if isinstance(answer, Conflict):
            raise answer
        if answer.created and overdue != "send" and request.due_at < datetime.now(UTC) - OVERDUE_AFTER:
            # Raised inside the transaction, which takes it back. One that stands already is shown, whatever its age.
            raise InvalidInput("due_at", f"{long_past(request.due_at)}; --overdue send schedules it all the same")
    print_scheduled(answer, zone, "scheduled" if answer.created else "stands already", as_json=as_json)


def _allowed_to(settings: Settings, tenant: str) -> AllowedPlaces:
    with session(settings) as ledger:
        return KeptAllowedPlaces(ledger.database).of(tenant)


def print_scheduled(reminder: ScheduledReminder, zone: str | None, what: str, *, as_json: bool) -> None:
    """A reminder after it was scheduled or moved."""
    if as_json:
        print_json(
            {
                "id": reminder.id,
                "status": reminder.status,
                "due_at": reminder.due_at,
                "delivery_key": reminder.delivery_key,
                "version": reminder.version,
                "created": reminder.created,
            }
        )
        return
    due = instant_for_people(reminder.due_at, zone)
    print(f"{reminder.id} {what}: {for_people(reminder.status)}, due {due}")

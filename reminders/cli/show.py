"""`reminders show`: everything about one reminder that is no personal data."""

from __future__ import annotations

from typing import Any

import click

from reminders.cli.printing import instant_for_people, print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.timeline import timeline, why
from reminders.cli.twice import sending_as_json
from reminders.cli.values import json_option, read_id
from reminders.domain.sending_proof import SENT_WORDS
from reminders.ledger.history import History, history
from reminders.ledger.reading import Attempt, Reminder
from reminders.ledger.sendings import Sending, Sent, sent_of


@click.command(short_help="Show one reminder: its state, why, and what happened.")
@click.argument("reminder_id", metavar="ID")
@json_option
def show(reminder_id: str, *, as_json: bool) -> None:
    """Show one reminder: its state, why it is in it, every attempt, what happened when, and what proves that it was sent.

    Neither the address it goes to nor its data are shown; the destination is named by its id.
    """
    wanted = read_id(reminder_id)
    with session() as ledger:
        found = history(ledger.database, wanted)
        sent = sent_of(ledger.database, wanted)
    if as_json:
        print_json(_as_json(found, sent))
    else:
        _print_for_people(found, sent)


def reminder_as_json(reminder: Reminder) -> dict[str, Any]:
    """The keys that `show` and `list` share."""
    return {name: getattr(reminder, name) for name in Reminder.__slots__}


def attempts_as_json(attempts: list[Attempt]) -> list[dict[str, Any]]:
    """The `attempts` of a reminder, oldest first. `error` is null where there is none."""
    return [
        {
            "number": attempt.number,
            "outcome": attempt.outcome,
            "status_code": attempt.status_code,
            "at": attempt.at,
            "provider_reference": attempt.provider_reference,
            "error": _error(attempt),
            "duration_ms": attempt.duration_ms,
            "decision": attempt.decision,
            "worker": attempt.worker,
            "delivery_key": attempt.delivery_key,
        }
        for attempt in attempts
    ]


def print_attempts(attempts: list[Attempt]) -> None:
    """The same for people."""
    print_table(
        ("attempt", "at", "outcome", "code", "ms", "error", "then"),
        [(a.number, a.at, a.outcome, a.status_code, a.duration_ms, _error(a), a.decision) for a in attempts],
    )


def _as_json(found: History, sent: Sent | None) -> dict[str, Any]:
    return {
        **reminder_as_json(found.reminder),
        "created": False,
        "destination_id": found.standing.destination_id,
        "provider_reference": found.standing.provider_reference,
        "uncertain_since": found.standing.uncertain_since,
        "hold_id": found.standing.pause_id,
        "hold_reason": found.standing.pause_reason,
        "held_at": found.standing.held_at,
        "template_id": found.standing.template_id,
        "template": found.standing.template_name(found.reminder),
        "quiet_until": found.standing.quiet_until,
        "waits_for": found.standing.waits_for,
        "waits_since": found.standing.waits_since,
        "suppressed_by": found.standing.suppressed_by,
        "suppressed_reason": found.standing.suppressed_reason,
        "why": why(found),
        "sent": "not_sent" if sent is None else sent.verdict,
        "proof": [] if sent is None else [sending_as_json(each) for each in sent.sendings],
        "attempts": attempts_as_json(found.attempts),
        "timeline": [{"at": event.at, "what": event.what, "detail": event.detail} for event in timeline(found)],
    }


def _print_for_people(found: History, sent: Sent | None) -> None:
    reminder, standing = found.reminder, found.standing
    print_fields(
        [
            ("id", reminder.id),
            ("status", reminder.status),
            ("why", why(found)),
            ("sent?", SENT_WORDS["not_sent" if sent is None else sent.verdict]),
            ("due", instant_for_people(reminder.due_at, reminder.zone)),
            ("expires", reminder.expires_at and instant_for_people(reminder.expires_at, reminder.zone)),
            ("tenant", reminder.tenant_id),
            ("user", reminder.user_id),
            ("kind", reminder.kind),
            ("reference", reminder.reference),
            ("slot", reminder.slot),
            ("channel", reminder.channel),
            ("destination", standing.destination_id),
            ("version", reminder.version),
            ("delivery key", reminder.delivery_key),
            ("template", standing.template_name(reminder)),
            ("provider says", standing.provider_reference),
            ("uncertain since", standing.uncertain_since),
        ]
    )
    print("\nWhat happened")
    print_table(("at", "what", "detail"), [(event.at, event.what, event.detail) for event in timeline(found)])
    for each in [] if sent is None else sent.sendings:
        print("\nOn record under its key")
        print_fields(_proof(each))


def _proof(sending: Sending) -> list[tuple[str, object]]:
    calls = sending.calls
    came_to = f"{calls.confirmed} confirmed, {calls.unknown} unknown, {sending.attempts - calls.can_have_arrived} surely not arrived{', 1 under way' if calls.under_way else ''}"
    return [
        ("delivery key", f"{sending.delivery_key} (in a webhook: webhook-id, Idempotency-Key)"),
        ("calls", f"{sending.attempts}: {came_to}"),
        ("confirmed", sending.confirmed_at),
        ("provider says", sending.provider_reference),
        ("body sha256", sending.body_sha256),
        (
            "if unknown",
            "may be repeated: its destination deduplicates" if calls.deduplicates else "is not repeated",
        ),
        ("word of", sending.by),
    ]


def _error(attempt: Attempt) -> str | None:
    return ": ".join(part for part in (attempt.error_class, attempt.reason) if part) or None

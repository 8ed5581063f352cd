"""Decisions as they are on record, with how their reminders stand; and cancelling those that no longer follow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.request import ReminderRequest
from reminders.domain.settlement import Decision
from reminders.ledger.caller import fetch
from reminders.ledger.statement import Statement

Told = Literal["scheduled", "left", "refused", "no_rule", "too_old", "off"]
"""What became of a decision's reminder. It stands for the decision as it is now (`scheduled`) or as it once was (`left`);
it could not be made, and is tried again (`refused`); or it was not to be made when the decision was."""
Outcome = Literal["created", "unchanged", "corrected", "withdrawn", "repaired"]

_COLUMNS = (
    "id, name, order_reference, line_id, payout_id, currency, amount, total, expected, reason, decided_at, corrected_at, "
    "withdrawn_at, told, told_reason, reminder_id, identity_key"
)

# Of a reminder: `gone` without a trace, `purged`, `live` and never attempted, `attempted`, `cancelling`, or how it ended.
STANDING_OF_REMINDER = """
       CASE WHEN d.reminder_id IS NULL THEN NULL
            WHEN r.id IS NULL THEN CASE WHEN k.reminder_id IS NULL THEN 'gone' ELSE 'purged' END
            WHEN r.status <> 'live' THEN r.status
            WHEN w.cancel_requested_at IS NOT NULL OR r.cancel_requested_at IS NOT NULL THEN 'cancelling'
            WHEN n.delivery_key IS NOT NULL THEN 'attempted' ELSE 'live' END"""
WITH_REMINDERS = """
LEFT JOIN {s}.reminders r ON r.id = d.reminder_id
LEFT JOIN {s}.due w ON w.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {s}.keys_seen k ON k.reminder_id = d.reminder_id AND r.id IS NULL"""

STANDING = Statement(
    "reconciliation_standing",
    f"""
SELECT d.id::text, d.name, d.order_reference, d.line_id, d.payout_id, d.currency, d.amount, d.total, d.expected, d.reason,
       d.decided_at, d.corrected_at, d.withdrawn_at, d.told, d.told_reason, d.reminder_id::text, encode(d.identity_key, 'hex'),{STANDING_OF_REMINDER}
FROM (
    SELECT * FROM {{s}}.reconciliation_decisions
    WHERE source = :source AND line_id IS NULL AND order_reference = ANY (:orders)
    UNION ALL
    SELECT * FROM {{s}}.reconciliation_decisions WHERE source = :source AND line_id = ANY (:lines)
) d{WITH_REMINDERS}
""",
    {"source": "text", "orders": "text[]", "lines": "text[]"},
)

SAVE = Statement(
    "reconciliation_save",
    f"""
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows) AS i (
        id uuid, name text, order_reference text, line_id text, payout_id text, currency text, amount numeric, total numeric,
        expected numeric, reason text, decided_at timestamptz, corrected_at timestamptz, withdrawn_at timestamptz, told text,
        told_reason text, reminder_id uuid, identity_key bytea)
)
INSERT INTO {{s}}.reconciliation_decisions AS d (source, {_COLUMNS})
SELECT :source, {_COLUMNS} FROM given ORDER BY id
ON CONFLICT (id) DO UPDATE
SET order_reference = EXCLUDED.order_reference, payout_id = EXCLUDED.payout_id, currency = EXCLUDED.currency,
    amount = EXCLUDED.amount, total = EXCLUDED.total, expected = EXCLUDED.expected, reason = EXCLUDED.reason,
    decided_at = EXCLUDED.decided_at, corrected_at = EXCLUDED.corrected_at,
    withdrawn_at = EXCLUDED.withdrawn_at, told = EXCLUDED.told, told_reason = EXCLUDED.told_reason,
    reminder_id = EXCLUDED.reminder_id, identity_key = EXCLUDED.identity_key
RETURNING 1
""",
    {"source": "text", "rows": "json"},
)

# What a run first did to a decision says more than that a later look of it changed nothing.
NOTE = Statement(
    "reconciliation_note",
    """
INSERT INTO {s}.reconciliation_run_decisions AS d (run_id, decision_id, outcome, note)
SELECT :run, decision_id, outcome, note
FROM json_to_recordset(:rows) AS i (decision_id uuid, outcome text, note text) ORDER BY decision_id
ON CONFLICT (run_id, decision_id) DO UPDATE
SET outcome = CASE WHEN d.outcome = 'created' THEN d.outcome ELSE EXCLUDED.outcome END, note = EXCLUDED.note
WHERE EXCLUDED.outcome <> 'unchanged'
RETURNING 1
""",
    {"run": "uuid", "rows": "json"},
)

CANCEL = Statement(
    "reconciliation_cancel",
    "SELECT reminder_id::text, answer, standing FROM {s}.cancel_rows(:ids)",
    {"ids": "uuid[]"},
)

# As a series withdraws a turn: it may come back, until a person cancels it as well.
WITHDRAW = Statement(
    "reconciliation_withdraw",
    "UPDATE {s}.reminders SET withdrawn_at = clock_timestamp() WHERE id = ANY (:ids) AND status = 'cancelled' RETURNING 1",
    {"ids": "uuid[]"},
)


# What stands where a decision's reminder was asked for and not made: the `same`, `ours` with other content, an `other`, or
# what was `purged`.
FOUND = Statement(
    "reconciliation_found",
    f"""
SELECT d.identity, d.reminder_id::text,
       CASE WHEN r.id IS NULL THEN 'purged' WHEN r.data = d.content::jsonb THEN 'same'
            WHEN jsonb_exists(r.data, 'decision') THEN 'ours' ELSE 'other' END, r.withdrawn_at IS NOT NULL,{STANDING_OF_REMINDER}
FROM (
    SELECT i.identity, i.content, COALESCE(
               (SELECT id FROM {{s}}.reminders WHERE identity_key = decode(i.identity, 'hex')),
               (SELECT reminder_id FROM {{s}}.keys_seen WHERE identity_key = decode(i.identity, 'hex'))) AS reminder_id
    FROM unnest(:identities, :contents) AS i (identity, content)
) d{WITH_REMINDERS}
WHERE d.reminder_id IS NOT NULL
""",
    {"identities": "text[]", "contents": "text[]"},
)

LOCK = Statement("reconciliation_lock", "SELECT {s}.lock_rows(:ids)", {"ids": "uuid[]"})

NOW = Statement(
    "reconciliation_now",
    f"SELECT d.reminder_id::text,{STANDING_OF_REMINDER}\nFROM unnest(:ids) AS d (reminder_id){WITH_REMINDERS}",
    {"ids": "uuid[]"},
)


@dataclass(frozen=True, slots=True)
class Record:
    """A decision on record. Instants are UTC.

    `standing` is its reminder's as it was read: `gone` (without a trace), `purged`, `live` (never attempted), `attempted`,
    `cancelling`, or its final status; None if there never was one. `identity_key` is that reminder's.
    """

    id: UUID
    decision: Decision
    decided_at: datetime
    corrected_at: datetime | None = None
    withdrawn_at: datetime | None = None
    told: Told = "no_rule"
    told_reason: str | None = None
    reminder_id: UUID | None = None
    identity_key: bytes | None = None
    standing: str | None = None


@dataclass(frozen=True, slots=True)
class FoundReminder:
    """A reminder under an identity: whether it says what is asked for now, and how it stands, as `Record.standing`.

    `withdrawn` says that a run cancelled it, and nobody else has since.
    """

    id: UUID
    says: Literal["same", "ours", "other", "purged"]
    withdrawn: bool
    standing: str


def recorded(
    connection: DriverConnection, schema: str, source: str, orders: Sequence[str], lines: Sequence[str]
) -> list[Record]:
    """What is on record of these orders and lines, withdrawn decisions too."""
    rows = fetch(connection, schema, STANDING, source=source, orders=list(orders), lines=list(lines))
    return [_recorded(row) for row in rows]


def save(connection: DriverConnection, schema: str, source: str, records: Iterable[Record]) -> None:
    """Write decisions, new ones and such that have changed."""
    rows = [_as_json(record) for record in records]
    if rows:
        fetch(connection, schema, SAVE, source=source, rows=json.dumps(rows))


def note(
    connection: DriverConnection, schema: str, run: UUID, notes: Iterable[tuple[UUID, Outcome, str | None]]
) -> None:
    """Put on record what the run did to each decision."""
    rows = [{"decision_id": str(each), "outcome": outcome, "note": text} for each, outcome, text in notes]
    if rows:
        fetch(connection, schema, NOTE, run=str(run), rows=json.dumps(rows))


def cancel_many(connection: DriverConnection, schema: str, reminders: Sequence[UUID]) -> Mapping[UUID, str]:
    """Cancel reminders in one round trip: `cancel`'s answer for each, or `is <status>` where nothing is left to cancel.

    Those that are no longer there are left out. What was not cancelled before may come back: a run has withdrawn it.
    """
    if not reminders:
        return {}
    rows = fetch(connection, schema, CANCEL, ids=[str(each) for each in sorted(reminders)])
    if ours := [reminder for reminder, answer, standing in rows if answer == "cancelled" != standing]:
        fetch(connection, schema, WITHDRAW, ids=ours)
    return {UUID(reminder): answer or f"is {standing}" for reminder, answer, standing in rows}


def found(
    connection: DriverConnection, schema: str, requests: Sequence[ReminderRequest]
) -> Mapping[bytes, FoundReminder]:
    """By identity, the reminders that stand where these were asked for and not made."""
    if not requests:
        return {}
    identities = [request.identity_key.hex() for request in requests]
    contents = [request.data for request in requests]
    rows = fetch(connection, schema, FOUND, identities=identities, contents=contents)
    return {
        bytes.fromhex(identity): FoundReminder(UUID(each), says, withdrawn, standing)
        for identity, each, says, withdrawn, standing in rows
    }


def locked(connection: DriverConnection, schema: str, reminders: Sequence[UUID]) -> Mapping[UUID, str]:
    """How reminders stand, which none of them leaves before the transaction ends."""
    if not reminders:
        return {}
    ids = [str(each) for each in sorted(reminders)]
    fetch(connection, schema, LOCK, ids=ids)
    return {UUID(reminder): standing for reminder, standing in fetch(connection, schema, NOW, ids=ids)}


def _recorded(row: tuple[Any, ...]) -> Record:
    decision = Decision(*row[1:10])
    decided_at, *times, told, told_reason, reminder, identity, standing = row[10:]
    corrected_at, withdrawn_at = (None if each is None else each.astimezone(UTC) for each in times)
    return Record(
        UUID(row[0]), decision, decided_at.astimezone(UTC), corrected_at, withdrawn_at, told, told_reason,
        None if reminder is None else UUID(reminder), None if identity is None else bytes.fromhex(identity), standing,
    )  # fmt: skip


def _as_json(record: Record) -> dict[str, Any]:
    decision = record.decision
    return {
        "id": str(record.id),
        "name": decision.name,
        "order_reference": decision.order_reference,
        "line_id": decision.line_id,
        "payout_id": decision.payout_id,
        "currency": decision.currency,
        "amount": str(decision.amount),
        "total": None if decision.total is None else str(decision.total),
        "expected": None if decision.expected is None else str(decision.expected),
        "reason": decision.reason,
        "decided_at": record.decided_at.isoformat(),
        "corrected_at": None if record.corrected_at is None else record.corrected_at.isoformat(),
        "withdrawn_at": None if record.withdrawn_at is None else record.withdrawn_at.isoformat(),
        "told": record.told,
        "told_reason": record.told_reason,
        "reminder_id": None if record.reminder_id is None else str(record.reminder_id),
        "identity_key": None if record.identity_key is None else f"\\x{record.identity_key.hex()}",
    }

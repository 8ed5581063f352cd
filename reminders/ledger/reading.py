"""Questions about reminders: one by id, many by filter, with attempts and letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.purged import not_found
from reminders.ledger.statement import Statement

_COLUMNS = """v.id::text, v.tenant_id, v.user_id, v.kind, v.channel, v.reference, v.slot, v.due_at, v.zone, v.expires_at, v.status,
       v.version, v.delivery_key, v.attempt_count, v.last_outcome, v.wake_at, v.cancel_requested_at IS NOT NULL, v.created_at,
       v.finished_at"""

GET = Statement("get", f"SELECT {_COLUMNS} FROM {{s}}.reminders_v1 v WHERE v.id = :id", {"id": "uuid"})

LIST = Statement(
    "list_reminders",
    f"""
SELECT {_COLUMNS} FROM {{s}}.reminders_v1 v
WHERE (:tenant IS NULL OR v.tenant_id = :tenant) AND (:user IS NULL OR v.user_id = :user)
  AND (:kind IS NULL OR v.kind = :kind) AND (:channel IS NULL OR v.channel = :channel)
  AND (:reference IS NULL OR v.reference = :reference) AND (:status IS NULL OR v.status = :status)
  AND (:after IS NULL OR v.id > :after)
ORDER BY v.id LIMIT :limit
""",
    {
        "tenant": "text", "user": "text", "kind": "text", "channel": "text", "reference": "text", "status": "text",
        "after": "uuid", "limit": "integer",
    },
)  # fmt: skip

ATTEMPTS = Statement(
    "attempts",
    """
SELECT a.claim_number, a.outcome, a.status_code, a.claimed_at, a.provider_reference, a.error_class, a.reason, a.duration_ms,
       a.decision, a.worker, a.delivery_key
FROM {s}.delivery_attempts a JOIN {s}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE n.reminder_id = :id ORDER BY a.claimed_at, a.claim_number
""",
    {"id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder as the view `reminders_v1` shows it. Instants are UTC."""

    id: UUID
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    reference: str | None
    slot: str
    due_at: datetime
    zone: str | None
    expires_at: datetime | None
    status: str
    version: int
    delivery_key: str
    attempt_count: int
    last_outcome: str | None
    wake_at: datetime | None
    cancel_requested: bool
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to a provider, as recorded."""

    number: int
    outcome: str
    status_code: int | None
    at: datetime
    provider_reference: str | None
    error_class: str
    reason: str
    duration_ms: int | None
    decision: str
    worker: str
    delivery_key: str


def get(connection: CallersConnection, schema: str, reminder_id: UUID) -> Reminder:
    """The reminder with this id. Raises `NotFound`, which tells of one that was purged when it was."""
    rows = fetch(connection, schema, GET, id=str(reminder_id))
    if not rows:
        raise not_found(connection, schema, reminder_id)
    return _reminder(rows[0])


def attempts(connection: CallersConnection, schema: str, reminder_id: UUID) -> list[Attempt]:
    """Every attempt at the reminder, oldest first, also under keys of earlier versions."""
    return [Attempt(*map(_utc, row)) for row in fetch(connection, schema, ATTEMPTS, id=str(reminder_id))]


def each_reminder(
    connection: CallersConnection, schema: str, *, limit: int | None, **filters: Any
) -> Iterator[Reminder]:
    """Reminders that match all given filters, in the order they were made, fetched page by page."""
    after, page = None, 1000
    while limit is None or limit > 0:
        size = page if limit is None else min(page, limit)
        rows = fetch(connection, schema, LIST, after=after, limit=size, **filters)
        yield from map(_reminder, rows)
        if len(rows) < size:
            return
        after = rows[-1][0]
        limit = None if limit is None else limit - len(rows)


def _reminder(row: tuple[Any, ...]) -> Reminder:
    return Reminder(UUID(row[0]), *map(_utc, row[1:]))


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value

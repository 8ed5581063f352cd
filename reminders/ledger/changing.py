"""Cancelling and moving reminders inside the caller's transaction.

What is allowed, and every write, is in functions of the schema (`migrations/functions`), which plain SQL calls as well. Each
first locks the rows of `due`, as every other move does, and then looks again: while it waited for the lock a row may have
been claimed or finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.purged import not_found
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.statement import Statement

CancelResult = Literal["cancelled", "requested", "maybe_sent", "too_late"]

CANCEL = Statement("cancel", "SELECT answer, standing FROM {s}.cancel_rows(ARRAY[:id])", {"id": "uuid"})

CANCEL_WHERE = Statement(
    "cancel_where",
    """
SELECT c.cancelled::text[], c.requested::text[], c.maybe_sent::text[], c.too_late::text[], c.more
FROM {s}.cancel_where(:tenant_id, :reference, :user_id, :kind, :slot, :channel, :at_most, :dry_run) AS c
""",
    {
        "tenant_id": "text", "reference": "text", "user_id": "text", "kind": "text", "slot": "text", "channel": "text",
        "at_most": "integer", "dry_run": "boolean",
    },
)  # fmt: skip

MOVE = Statement(
    "move",
    """
SELECT m.kind, m.field, m.said, m.delivery_key, m.due_at, m.status, m.version
FROM {s}.move_row(:id, :due_at, :zone, :expires_at, :put_off, :by) AS m
""",
    {"id": "uuid", "due_at": "timestamptz", "zone": "text", "expires_at": "timestamptz", "put_off": "boolean", "by": "interval"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CancelledMany:
    """What became of the reminders that matched: their ids by the answer that `cancel` gives."""

    cancelled: tuple[UUID, ...]
    requested: tuple[UUID, ...]
    maybe_sent: tuple[UUID, ...]
    too_late: tuple[UUID, ...]
    more: bool
    """Whether others match that were not reached, since so many were asked for at most: ask again."""

    @property
    def counts(self) -> dict[CancelResult, int]:
        """How many each answer was given for."""
        return {
            "cancelled": len(self.cancelled),
            "requested": len(self.requested),
            "maybe_sent": len(self.maybe_sent),
            "too_late": len(self.too_late),
        }


def cancel(connection: CallersConnection, schema: str, reminder_id: UUID) -> CancelResult:
    """Cancel in the caller's transaction; see `reminders.cancel` for what each answer means."""
    rows = fetch(connection, schema, CANCEL, id=str(reminder_id))
    if not rows:
        raise not_found(connection, schema, reminder_id)
    answer: CancelResult | None
    ((answer, status),) = rows
    if answer is None:
        raise Refused(f"reminder {reminder_id} is {status}: nothing is left to cancel")
    return answer


def cancel_where(
    connection: CallersConnection, schema: str, wanted: Mapping[str, str | None], *, at_most: int, dry_run: bool
) -> CancelledMany:
    """Cancel what matches, in the caller's transaction; see `reminders.cancel_where`. `wanted` must be checked."""
    (row,) = fetch(connection, schema, CANCEL_WHERE, **wanted, at_most=at_most, dry_run=dry_run)
    cancelled, requested, maybe_sent, too_late = (tuple(map(UUID, ids)) for ids in row[:-1])
    return CancelledMany(cancelled, requested, maybe_sent, too_late, more=row[-1])


def reschedule(
    connection: CallersConnection,
    schema: str,
    reminder_id: UUID,
    *,
    due_at: datetime,
    zone: str | None,
    expires_at: datetime | None,
) -> ScheduledReminder:
    """Move in the caller's transaction; see `reminders.reschedule`. `due_at` and `expires_at` are UTC."""
    return _move(connection, schema, reminder_id, due_at=due_at, zone=zone, expires_at=expires_at, put_off=False)


def snooze(
    connection: CallersConnection, schema: str, reminder_id: UUID, *, until: datetime | None, by: timedelta | None
) -> ScheduledReminder:
    """Put off in the caller's transaction; see `reminders.snooze`. One of `until`, in UTC, and `by` is given."""
    return _move(connection, schema, reminder_id, due_at=until, put_off=True, by=by)


def _move(connection: CallersConnection, schema: str, reminder_id: UUID, **given: Any) -> ScheduledReminder:
    (row,) = fetch(connection, schema, MOVE, id=str(reminder_id), **given)
    kind, field, said, key, due_at, status, version = row
    match kind:
        case "missing":
            raise NotFound(said)
        case "refused":
            raise Refused(said)
        case "invalid":
            raise InvalidInput(field, said)
    return ScheduledReminder(reminder_id, key, due_at.astimezone(UTC), status, version, created=False)

"""What the ledger still knows of a reminder that was purged: by id, for whoever asks for it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.statement import Statement

PURGED = Statement(
    "purged",
    "SELECT status, finished_at, purged_at FROM {s}.keys_seen WHERE reminder_id = :id AND purged_at IS NOT NULL",
    {"id": "uuid"},
)


def not_found(connection: CallersConnection, schema: str, reminder_id: UUID) -> NotFound:
    """The error for an id that no reminder has: whether there never was one, or when it ended and was purged."""
    rows = fetch(connection, schema, PURGED, id=str(reminder_id))
    if not rows:
        return NotFound(f"there is no reminder {reminder_id}")
    status, finished_at, purged_at = rows[0]
    return NotFound(
        f"reminder {reminder_id} was purged on {_day(purged_at)}; it ended as {status} on {_day(finished_at)}"
    )


def _day(instant: datetime) -> str:
    return instant.astimezone(UTC).date().isoformat()

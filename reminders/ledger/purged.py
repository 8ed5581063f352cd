"""What the ledger still knows of a reminder that is not there: whether there never was one, or when it was purged."""

from __future__ import annotations

from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.statement import Statement

MISSING = Statement("missing", "SELECT {s}.missing(:id)", {"id": "uuid"})


def not_found(connection: CallersConnection, schema: str, reminder_id: UUID) -> NotFound:
    """The error for an id that no reminder has: whether there never was one, or when it ended and was purged."""
    ((said,),) = fetch(connection, schema, MISSING, id=str(reminder_id))
    return NotFound(said)

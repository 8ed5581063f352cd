"""What a redrive would do: the redrive itself, taken back."""

from __future__ import annotations

from uuid import UUID

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.review import LIST, REDRIVE, SETTLE_CONFIRMED, LetterFilter


def would_redrive(database: Database, wanted: LetterFilter, *, limit: int, checked: bool) -> tuple[list[UUID], int]:
    """The reminders that `redrive` would send again now, and how many of the letters wanted would stay open.

    Nothing is changed; the rows are locked for that moment.
    """
    given = {**wanted.parameters(), "limit": limit, "actor": "rehearsal", "reason": "rehearsal"}
    sent: list[UUID] = []
    stay = 0
    try:
        with database.transaction() as connection:
            fetch(connection, database.schema, SETTLE_CONFIRMED, **given)
            sent = [UUID(row[0]) for row in fetch(connection, database.schema, REDRIVE, **given, checked=checked)]
            stay = len(fetch(connection, database.schema, LIST, **given, state="open"))
            raise _TakenBack
    except _TakenBack:
        return sent, stay


class _TakenBack(Exception):
    """Ends the transaction without committing it."""

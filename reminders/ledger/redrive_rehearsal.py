"""What a redrive would do: the redrive itself, taken back."""

from __future__ import annotations

from uuid import UUID

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.review import REDRIVE, LetterFilter


def would_redrive(database: Database, wanted: LetterFilter, *, limit: int, checked: bool) -> list[UUID]:
    """The reminders that `redrive` would send again now. Nothing is changed; their rows are locked for that moment."""
    found: list[UUID] = []
    try:
        with database.transaction() as connection:
            rows = fetch(
                connection,
                database.schema,
                REDRIVE,
                **wanted.parameters(),
                checked=checked,
                limit=limit,
                actor="rehearsal",
                reason="rehearsal",
            )
            found = [UUID(row[0]) for row in rows]
            raise _TakenBack
    except _TakenBack:
        return found


class _TakenBack(Exception):
    """Ends the transaction without committing it."""

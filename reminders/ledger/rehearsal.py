"""What a drill asks the ledger about the reminders that it made, and about those that it did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from reminders.ledger.database import MARK, Database
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.statement import Statement

_OF_THESE = {"ids": "uuid[]"}

COUNTS = Statement(
    "rehearsal_counts",
    "SELECT status, count(*) FROM {s}.reminders_v1 WHERE id = ANY(:ids) GROUP BY status ORDER BY status",
    _OF_THESE,
)

ABOUT = Statement(
    "rehearsal_about",
    """
SELECT id::text, delivery_key, due_at, status, version FROM {s}.reminders_v1
WHERE tenant_id = :tenant AND reference = ANY(:references) ORDER BY id
""",
    {"tenant": "text", "references": "text[]"},
)

ATTEMPTS = Statement(
    "rehearsal_attempts",
    """
SELECT COALESCE(r.reference, ''), a.claim_number, a.outcome, a.error_class, a.claimed_at,
       a.claimed_at + make_interval(secs => a.duration_ms / 1000.0)
FROM {s}.reminders r
JOIN {s}.notification_deliveries n ON n.reminder_id = r.id
JOIN {s}.delivery_attempts a ON a.delivery_key = n.delivery_key
WHERE r.id = ANY(:ids) ORDER BY a.claimed_at, a.claim_number
""",
    _OF_THESE,
)

LETTERS = Statement(
    "rehearsal_letters",
    """
SELECT COALESCE(r.reference, ''), l.kind, l.state
FROM {s}.reminders r JOIN {s}.dead_letters l ON l.reminder_id = r.id
WHERE r.id = ANY(:ids) ORDER BY l.opened_at
""",
    _OF_THESE,
)

CLAIMED_BY = Statement(
    "rehearsal_claimed_by",
    "SELECT worker FROM {s}.notification_deliveries WHERE delivery_key = :key AND status = 'sending'",
    {"key": "text"},
)

SHUTDOWN_NOTED = Statement(
    "rehearsal_shutdown_noted",
    """
SELECT 1 FROM {s}.notification_deliveries n JOIN {s}.shutdowns s ON s.worker = n.worker
WHERE n.delivery_key = :key AND n.status = 'sending'
""",
    {"key": "text"},
)

TICKS = Statement("rehearsal_ticks", "SELECT taken, dropped FROM {s}.ticks WHERE name = 'scan_due'", {})

LIVE = Statement("rehearsal_live", "SELECT id::text FROM {s}.due WHERE id = ANY(:ids) ORDER BY id", _OF_THESE)

OTHERS = Statement(
    "rehearsal_others",
    "SELECT id::text FROM {s}.reminders WHERE tenant_id = :tenant AND (user_id <> :user OR kind <> :kind) LIMIT 1",
    {"tenant": "text", "user": "text", "kind": "text"},
)


@dataclass(frozen=True, slots=True)
class AttemptMade:
    """One recorded attempt. `ended_at` is None where the worker did not live to record it."""

    reference: str
    claim_number: int
    outcome: str
    error_class: str
    claimed_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class LetterOpened:
    """One dead letter, in any state."""

    reference: str
    kind: str
    state: str


class Rehearsal:
    """Reads about some reminders. Every method is one round trip."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def counts(self, ids: Sequence[UUID]) -> dict[str, int]:
        """How many of them are in each status, in the order of its name."""
        return {row[0]: row[1] for row in self._db.fetch(COUNTS, ids=_texts(ids))}

    def about(self, tenant: str, references: Sequence[str]) -> list[ScheduledReminder]:
        """Of a tenant, what is in the ledger under these references, oldest first."""
        rows = self._db.fetch(ABOUT, tenant=tenant, references=list(references))
        return [
            ScheduledReminder(UUID(id_), key, due_at, status, version, created=False)
            for id_, key, due_at, status, version in rows
        ]

    def attempts(self, ids: Sequence[UUID]) -> list[AttemptMade]:
        """Their attempts, oldest claim first."""
        return [AttemptMade(*row) for row in self._db.fetch(ATTEMPTS, ids=_texts(ids))]

    def letters(self, ids: Sequence[UUID]) -> list[LetterOpened]:
        """Their dead letters, oldest first."""
        return [LetterOpened(*row) for row in self._db.fetch(LETTERS, ids=_texts(ids))]

    def claimed_by(self, key: str) -> str | None:
        """The worker that has an open claim on a delivery key: host, process id and more, with colons between."""
        rows = self._db.fetch(CLAIMED_BY, key=key)
        return rows[0][0] if rows else None

    def shutdown_noted(self, key: str) -> bool:
        """Whether the worker that has an open claim on a delivery key has a shutdown on record."""
        return bool(self._db.fetch(SHUTDOWN_NOTED, key=key))

    def live(self, ids: Sequence[UUID]) -> list[UUID]:
        """Those of them that have not reached their end."""
        return [UUID(row[0]) for row in self._db.fetch(LIVE, ids=_texts(ids))]

    def ticks(self) -> tuple[int, int]:
        """Ticks taken and ticks dropped since the ledger was made."""
        rows = self._db.fetch(TICKS)
        return (rows[0][0], rows[0][1]) if rows else (0, 0)

    def another_of(self, tenant: str, *, user: str, kind: str) -> str | None:
        """The id of some reminder of `tenant` that is not for `user` and of `kind`."""
        rows = self._db.fetch(OTHERS, tenant=tenant, user=user, kind=kind)
        return rows[0][0] if rows else None


@contextmanager
def marked(database: Database) -> Iterator[None]:
    """Mark a claim as under way for the block, as one does that is just being taken."""
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {database.schema}.pauses IN {MARK}")
        yield


def _texts(ids: Sequence[UUID]) -> list[str]:
    return [str(each) for each in ids]

"""Questions about series: which there are, what their occurrences have become, and what of them was skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from reminders.domain.series import SkipReason
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.occurrences import is_moved
from reminders.ledger.series_rows import LIST, Series, read
from reminders.ledger.statement import Statement

PAGE = 500

OCCURRENCES = Statement(
    "series_occurrences",
    """
SELECT r.id::text, r.recurrence_id, r.due_at, r.zone,
       CASE WHEN r.withdrawn_at IS NOT NULL THEN 'withdrawn' ELSE COALESCE(d.status, r.status) END, r.moved_at IS NOT NULL,
       s.planned_zone
FROM {s}.reminders r JOIN {s}.series s ON s.id = r.series_id LEFT JOIN {s}.due d ON d.id = r.id
WHERE r.series_id = :series ORDER BY r.due_at DESC, r.id LIMIT :limit
""",
    {"series": "uuid", "limit": "integer"},
)

SKIPS = Statement(
    "series_skips",
    """
SELECT recurrence_id, due_at, lateness, reason, count, skipped_at FROM {s}.series_skips
WHERE series_id = :series ORDER BY due_at DESC LIMIT :limit
""",
    {"series": "uuid", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class Made:
    """An occurrence of a series: the reminder that a turn has become. `due_at` is UTC; `moved` says by a person."""

    id: UUID
    recurrence_id: str
    due_at: datetime
    zone: str | None
    status: str
    moved: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """A turn that was not made, or `count` of them, of which this is the newest. Instants are UTC."""

    recurrence_id: str
    due_at: datetime
    lateness: timedelta
    reason: SkipReason
    count: int
    skipped_at: datetime


def each_series(connection: CallersConnection, schema: str, *, limit: int | None, **filters: Any) -> Iterator[Series]:
    """Series that match all filters given (tenant, user, reference, status), in the order they were made, page by page."""
    after: str | None = None
    while limit is None or limit > 0:
        size = PAGE if limit is None else min(PAGE, limit)
        rows = fetch(connection, schema, LIST, after=after, limit=size, **filters)
        yield from map(read, rows)
        if len(rows) < size:
            return
        after = rows[-1][0]
        limit = None if limit is None else limit - len(rows)


def occurrences_of(connection: CallersConnection, schema: str, series_id: UUID, limit: int) -> list[Made]:
    """What turns of a series have become, the latest first."""
    rows = fetch(connection, schema, OCCURRENCES, series=str(series_id), limit=limit)
    return [
        Made(UUID(id_), turn, due.astimezone(UTC), zone, status, is_moved(turn, due, planned_zone, said=said))
        for id_, turn, due, zone, status, said, planned_zone in rows
    ]


def skips_of(connection: CallersConnection, schema: str, series_id: UUID, limit: int) -> list[Skipped]:
    """Turns of a series that were not made, the latest first."""
    run = partial(fetch, connection, schema)
    rows = run(SKIPS, series=str(series_id), limit=limit)
    return [
        Skipped(turn, due.astimezone(UTC), lateness, reason, count, at.astimezone(UTC))
        for turn, due, lateness, reason, count, at in rows
    ]

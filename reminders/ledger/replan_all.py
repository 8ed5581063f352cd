"""Replanning many series: after a new release of the zones' data, or to see that nothing needs it.

It works through active series by id, a batch in a transaction of its own, and may be broken off and run again: what is
where it belongs is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import NotFound
from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, Database
from reminders.ledger.occurrences import coming
from reminders.ledger.planning import BROKEN, replan_one
from reminders.ledger.replanning import would_move
from reminders.ledger.series_rows import Series, lock_many
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import plan

BATCH = 200
PATIENCE_MS = 10_000
"""For how long an application's open transaction that holds a series or an occurrence is waited for."""

PAGE = Statement(
    "replan_page",
    """
SELECT id::text FROM {s}.series
WHERE status = 'active' AND id > :after AND (:tenant IS NULL OR tenant_id = :tenant) AND (:series IS NULL OR id = :series)
ORDER BY id LIMIT :limit
""",
    {"after": "uuid", "tenant": "text", "series": "uuid", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class Moved:
    """One occurrence that is to move, from one instant to another; to None where its series no longer has its turn.

    All instants are UTC. `occurrence_id` is None where the next turn is no live reminder, and only the series moves.
    """

    series_id: UUID
    occurrence_id: UUID | None
    recurrence_id: str | None
    from_: datetime
    to: datetime | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction came to: how many series it looked at, what moved, and which could not be planned."""

    looked_at: int
    moved: list[Moved]
    faulty: list[tuple[UUID, str]]


def replan_all(
    database: Database, *, tenant: str | None, series: UUID | None, dry_run: bool, now: datetime | None = None
) -> Iterator[Batch]:
    """Bring what is planned to where it belongs by the rules and zones as they are here, batch by batch.

    With `dry_run` nothing is changed. Raises `NotFound` for a series that is not there or not active.
    """
    after = str(UUID(int=0))
    while True:
        with database.transaction() as connection:
            _begin(connection)
            run = partial(fetch, connection, database.schema)
            given = {"tenant": tenant, "series": None if series is None else str(series)}
            ids = [UUID(row[0]) for row in run(PAGE, after=after, limit=BATCH, **given)]
            if series is not None and not ids and after == str(UUID(int=0)):
                raise NotFound(f"no active series has the id {series}")
            locked = lock_many(run, ids, now)
            done = _replanned(connection, database.schema, locked, dry_run=dry_run)
            # Crash here: nothing of this batch is committed, and another run does it.
        if ids:
            yield done
        if len(ids) < BATCH:
            return
        after = str(ids[-1])


def _replanned(connection: DriverConnection, schema: str, locked: list[Series], *, dry_run: bool) -> Batch:
    # What has come due is the planner's, and it looks at the zone as it is then.
    waiting = [each for each in locked if each.status == "active" and each.planned_until > each.now]
    standing = coming(connection, schema, waiting)
    moved: list[Moved] = []
    faulty: list[tuple[UUID, str]] = []
    for series in waiting:
        try:
            found = [
                Moved(series.id, each.id, each.recurrence_id, each.due_at, None if planned is None else planned.turn.at)
                for each, planned in would_move(series, standing[series.id])
            ]
            next_at = plan(series.when(), series.now, series.now).plan_at
        except BROKEN as error:
            faulty.append((series.id, str(error)))
            continue
        if not found and next_at != series.planned_until:
            found.append(Moved(series.id, None, None, series.planned_until, next_at))
        if found and not dry_run:
            replan_one(connection, schema, series)
        moved += found
    return Batch(len(locked), moved, faulty)


def _begin(connection: DriverConnection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"{INDEXES_ONLY}SET LOCAL lock_timeout = {PATIENCE_MS}")

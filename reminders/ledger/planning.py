"""The planner: turns of series become reminders, in one transaction with what is noted of the series.

Crash anywhere: everything of a transaction has happened, or nothing, and then the series is found again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import InvalidInput
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.database import INDEXES_ONLY, Database, LockNotAvailable
from reminders.ledger.occurrences import make
from reminders.ledger.replanning import replan
from reminders.ledger.scheduling import ROW_REFUSED
from reminders.ledger.series_rows import LOCK, LOCK_DUE, USERS_ZONE, Series, read
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Plan, Planned, Skip, plan

logger = logging.getLogger(__name__)

LONGEST_BATCH = 0.25
"""Seconds after which no further series of a batch is looked at: what is due now waits behind it."""
LOCK_TIMEOUT_MS = 500
"""For how long the planner waits for an application that holds an occurrence."""
TRY_AGAIN_AFTER = 10.0
"""Seconds until a series is looked at again whose occurrence an application held."""
FAULTY_FOR = 600.0
"""Seconds until a series is looked at again that this release cannot plan."""
BROKEN: tuple[type[Exception], ...] = (InvalidInput, ValueError, OverflowError, *ROW_REFUSED)
"""What makes one series impossible to plan, and must not keep the others from it."""
_ONE_BY_ONE: tuple[type[Exception], ...] = (LockNotAvailable, *BROKEN)

ANY_DUE = Statement(
    "series_any_due",
    "SELECT EXISTS (SELECT 1 FROM {s}.series WHERE plan_at <= (SELECT COALESCE(:now, clock_timestamp())))",
    {"now": "timestamptz"},
)

# A user's zone that was changed between the snapshot in which the series was locked and this one is seen here; one that is
# changed later waits for the series' row, and asks for the replan itself.
DECIDED = Statement(
    "series_decided",
    f"""
WITH decided AS MATERIALIZED (
    SELECT i.*, i.replan OR i.plan_at IS NOT NULL AND COALESCE({USERS_ZONE}, s.zone) <> i.zone AS again
    FROM json_to_recordset(:rows) AS i (id uuid, planned_until timestamptz, plan_at timestamptz, zone text, replan boolean)
    JOIN {{s}}.series s ON s.id = i.id
)
UPDATE {{s}}.series s
SET planned_until = i.planned_until, plan_at = CASE WHEN i.again AND NOT i.replan THEN LEAST(i.plan_at, clock_timestamp()) ELSE i.plan_at END,
    planned_zone = i.zone, replan = i.again, fault = NULL, status = CASE WHEN i.plan_at IS NULL THEN 'ended' ELSE 'active' END
FROM decided i
WHERE s.id = i.id AND s.status IN ('active', 'ended') RETURNING 1
""",
    {"rows": "json"},
)

RECORD_SKIPS = Statement(
    "series_record_skips",
    """
INSERT INTO {s}.series_skips (series_id, recurrence_id, due_at, lateness, reason, count)
SELECT series_id, recurrence_id, due_at, make_interval(secs => lateness), reason, count
FROM json_to_recordset(:rows) AS i (series_id uuid, recurrence_id text, due_at timestamptz, lateness float8, reason text, count integer)
ON CONFLICT (series_id, recurrence_id) DO NOTHING RETURNING 1
""",
    {"rows": "json"},
)

PUT_OFF = Statement(
    "series_put_off",
    """
UPDATE {s}.series SET plan_at = COALESCE(:now, clock_timestamp()) + make_interval(secs => :seconds), fault = :fault
WHERE id = :id AND status = 'active' RETURNING 1
""",
    {"id": "uuid", "now": "timestamptz", "seconds": "float8", "fault": "text"},
)


@dataclass(frozen=True, slots=True)
class Decided:
    """What is decided of one series, and what that makes of it."""

    series: Series
    plan: Plan


def plan_due(database: Database, limit: int, now: datetime | None) -> int:
    """Plan up to `limit` series whose time has come; how many were looked at. One look at an index if there are none.

    A series that cannot be planned is put off with its fault, and logged; one of whose occurrences an application holds is
    looked at again soon.
    """
    if not database.fetch(ANY_DUE, now=now)[0][0]:
        return 0
    try:
        with database.transaction() as connection:
            found = _lock_due(connection, database.schema, limit, now)
            decide(connection, database.schema, found, until=time.monotonic() + LONGEST_BATCH)
            # Crash here: nothing of this batch is committed, and the series are found again.
        return len(found)
    except _ONE_BY_ONE:
        pass
    with database.transaction() as connection:
        ids = [str(each.id) for each in _lock_due(connection, database.schema, limit, now)]
    for each in ids:
        _plan_one(database, each, now)
    return len(ids)


def decide(connection: CallersConnection, schema: str, found: Sequence[Series], *, until: float | None = None) -> int:
    """Plan these series, which are locked and active; how many reminders were made.

    With `until`, a time of `time.monotonic`, only as many as there is time for, but the first in any case.
    """
    plain: list[Decided] = []
    made = 0
    for series in found:
        if until is not None and series is not found[0] and time.monotonic() >= until:
            break
        if series.replan or series.planned_zone != series.effective_zone:
            made += replan_one(connection, schema, series)
        else:
            plain.append(Decided(series, plan(series.when(), series.planned_until, series.now)))
    return made + settle(connection, schema, plain)


def replan_one(connection: CallersConnection, schema: str, series: Series) -> int:
    """Bring what is planned of a locked series to where it belongs now, after what it has missed is decided."""
    if series.plan_at is not None and series.planned_until <= series.now:
        missed = plan(series.when(), series.planned_until, series.now)
        past = [each for each in missed.make if each.turn.at <= series.now]
        if missed.plan_at is not None and missed.plan_at <= series.now:
            return settle(connection, schema, [Decided(series, missed)], again=True)
        made = make(connection, schema, [(series, each) for each in past])
        record_skips(connection, schema, [(series, each) for each in missed.skips])
    else:
        made = 0
    done = replan(connection, schema, series)
    record_skips(connection, schema, [(series, each) for each in done.skips])
    return made + settle(connection, schema, [Decided(series, done.plan)])


def settle(connection: CallersConnection, schema: str, decided: Sequence[Decided], *, again: bool = False) -> int:
    """Write what is decided; how many reminders were made. With `again`, a replan that is asked for stays asked for."""
    if not decided:
        return 0
    wanted: list[tuple[Series, Planned]] = [(each.series, planned) for each in decided for planned in each.plan.make]
    made = make(connection, schema, wanted)
    record_skips(connection, schema, [(each.series, skip) for each in decided for skip in each.plan.skips])
    rows = [
        {
            "id": str(each.series.id),
            "planned_until": each.plan.planned_until.isoformat(),
            "plan_at": each.plan.plan_at and each.plan.plan_at.isoformat(),
            "zone": each.series.planned_zone if again else each.series.effective_zone,
            "replan": again,
        }
        for each in decided
    ]
    fetch(connection, schema, DECIDED, rows=json.dumps(rows))
    return made


def record_skips(connection: CallersConnection, schema: str, left_out: Sequence[tuple[Series, Skip]]) -> None:
    """Note turns that are not made, each once, with its lateness."""
    if not left_out:
        return
    rows = [
        {
            "series_id": str(series.id),
            "recurrence_id": skip.turn.recurrence_id,
            "due_at": skip.turn.at.isoformat(),
            "lateness": skip.lateness.total_seconds(),
            "reason": skip.reason,
            "count": skip.count,
        }
        for series, skip in left_out
    ]
    fetch(connection, schema, RECORD_SKIPS, rows=json.dumps(rows))


def _lock_due(connection: DriverConnection, schema: str, limit: int, now: datetime | None) -> list[Series]:
    _begin(connection)
    return [read(row) for row in fetch(connection, schema, LOCK_DUE, now=now, limit=limit)]


def _begin(connection: DriverConnection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"{INDEXES_ONLY}SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")


def _plan_one(database: Database, series_id: str, now: datetime | None) -> None:
    try:
        with database.transaction() as connection:
            _begin(connection)
            run = partial(fetch, connection, database.schema)
            found = [read(row) for row in run(LOCK, ids=[series_id], now=now)]
            decide(connection, database.schema, [each for each in found if each.plan_at and each.plan_at <= each.now])
    except LockNotAvailable:
        _put_off(database, series_id, TRY_AGAIN_AFTER, now, None)
    except BROKEN as error:
        words = str(error).partition("\n")[0][:200] or type(error).__name__
        _put_off(database, series_id, FAULTY_FOR, now, f"{type(error).__name__}: {words}")
        logger.error("plan.faulty series=%s error=%s", series_id, type(error).__name__)  # noqa: TRY400 - told in a line


def _put_off(database: Database, series_id: str, seconds: float, now: datetime | None, fault: str | None) -> None:
    given: dict[str, Any] = {"id": series_id, "seconds": seconds, "now": now, "fault": fault}
    try:
        database.fetch_within(LOCK_TIMEOUT_MS, PUT_OFF, **given)
    except LockNotAvailable:
        logger.info("plan.held series=%s: somebody is changing it", series_id)

"""The planner: turns of series become reminders, in one transaction with what is noted of the series.

Crash anywhere: everything of a transaction has happened, or nothing, and then the series is found again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.calendar.recurrence import instant_of
from reminders.domain.errors import InvalidInput, Refused
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.database import INDEXES_ONLY, Database, LockNotAvailable
from reminders.ledger.occurrences import last_made, make
from reminders.ledger.replanning import decided_anew, replan
from reminders.ledger.scheduling import ROW_REFUSED
from reminders.ledger.series_rows import USERS_ZONE, Series, lock_due, lock_many
from reminders.ledger.skip_records import record_skips
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Plan, Planned, plan

logger = logging.getLogger(__name__)

LONGEST_BATCH = 0.25
"""Seconds after which no further series of a batch is looked at: what is due now waits behind it."""
LOCK_TIMEOUT_MS = 500
"""For how long the planner waits for an application that holds an occurrence."""
TRY_AGAIN_AFTER = 10.0
"""Seconds until a series is looked at again whose occurrence an application held."""
FAULTY_FOR = 600.0
"""Seconds until a series is looked at again that this release cannot plan."""
MOST_ROUNDS = 100
"""In which a call decides on the turns that nobody has decided on yet, some ten thousand each."""
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

# Whoever has changed it meanwhile may have cured it: then its time has not come any more.
PUT_OFF = Statement(
    "series_put_off",
    """
UPDATE {s}.series
SET planned_until = LEAST(planned_until, plan_at), plan_at = COALESCE(:now, clock_timestamp()) + make_interval(secs => :seconds),
    fault = :fault
WHERE id = :id AND plan_at <= COALESCE(:now, clock_timestamp()) RETURNING 1
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
            _begin(connection)
            found = lock_due(partial(fetch, connection, database.schema), limit, now)
            decide(connection, database.schema, found, until=time.monotonic() + LONGEST_BATCH)
            # Crash here: nothing of this batch is committed, and the series are found again.
        return len(found)
    except _ONE_BY_ONE:
        pass
    with database.transaction() as connection:
        _begin(connection)
        ids = [each.id for each in lock_due(partial(fetch, connection, database.schema), limit, now)]
    for each in ids:
        _plan_one(database, each, now)
    return len(ids)


def decide(connection: CallersConnection, schema: str, found: Sequence[Series], *, until: float | None = None) -> int:
    """Plan these series, which are locked and active; how many reminders were made.

    With `until`, a time of `time.monotonic`, only as many as there is time for, but the first in any case.
    """
    plain: list[Decided] = []
    made = 0
    last = last_made(connection, schema, found)
    for series in found:
        if until is not None and series is not found[0] and time.monotonic() >= until:
            break
        if series.replan or series.planned_zone != series.effective_zone or _is_told_otherwise(series, last):
            made += replan_one(connection, schema, series)
        else:
            plain.append(Decided(series, plan(series.when(), series.planned_until, series.now)))
    return made + settle(connection, schema, plain)


def _is_told_otherwise(series: Series, last: Mapping[UUID, str]) -> bool:
    """Whether the turn that was planned last comes at another time by new data of its zone, so that its time tells nothing."""
    name = last.get(series.id)
    return name is not None and instant_of(name, series.effective_zone) != series.planned_until


def replan_one(connection: CallersConnection, schema: str, series: Series, given: frozenset[str] | None = None) -> int:
    """Bring what is planned of a locked series to where it belongs now, and decide on what was not decided; how many were made.

    `given` is as `replan` takes it.
    """
    done = Decided(series, replan(connection, schema, series, given))
    more = done.plan.plan_at is not None and done.plan.plan_at <= series.now
    return settle(connection, schema, [done], again=more)


def decide_behind_fault(connection: CallersConnection, schema: str, was: Series, series: Series) -> Series:
    """Decide on what a series has missed since a fault kept the planner from it; the series then.

    It is decided by the rule as it `was`, and made as the series is now. Where that rule cannot be computed, nothing is
    decided. Raises `Refused` if it is too much for one call.
    """
    if was.plan_at is None or was.planned_until > was.now:
        return series
    for _ in range(MOST_ROUNDS):
        try:
            missed = decided_anew(was, ())
        except BROKEN:
            return series
        make(connection, schema, [(series, each) for each in missed.make if each.turn.at <= was.now])
        record_skips(connection, schema, [(series, each) for each in missed.skips])
        if missed.plan_at is None or missed.plan_at > was.now:
            return replace(series, planned_until=was.now, planned_zone=was.effective_zone)
        was = replace(was, planned_until=missed.planned_until, planned_zone=was.effective_zone)
    raise Refused(too_much(series.id))


def too_much(series_id: UUID) -> str:
    """Why a call on a series is refused that `MOST_ROUNDS` are not enough for."""
    return f"series {series_id} has more turns behind it than one call decides on; once the scanner has, try again"


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
            "zone": each.series.effective_zone,
            "replan": again,
        }
        for each in decided
    ]
    fetch(connection, schema, DECIDED, rows=json.dumps(rows))
    return made


def _begin(connection: DriverConnection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"{INDEXES_ONLY}SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")


def _plan_one(database: Database, series_id: UUID, now: datetime | None) -> None:
    try:
        with database.transaction() as connection:
            _begin(connection)
            found = lock_many(partial(fetch, connection, database.schema), [series_id], now)
            decide(connection, database.schema, [each for each in found if each.plan_at and each.plan_at <= each.now])
    except LockNotAvailable:
        _put_off(database, series_id, TRY_AGAIN_AFTER, now, None)
    except BROKEN as error:
        words = str(error).partition("\n")[0][:200] or type(error).__name__
        _put_off(database, series_id, FAULTY_FOR, now, f"{type(error).__name__}: {words}")
        logger.error("plan.faulty series=%s error=%s", series_id, type(error).__name__)  # noqa: TRY400 - told in a line


def _put_off(database: Database, series_id: UUID, seconds: float, now: datetime | None, fault: str | None) -> None:
    given: dict[str, Any] = {"id": str(series_id), "seconds": seconds, "now": now, "fault": fault}
    try:
        database.fetch_within(LOCK_TIMEOUT_MS, PUT_OFF, **given)
    except LockNotAvailable:
        logger.info("plan.held series=%s: somebody is changing it", series_id)

"""Scheduling and changing series inside the caller's transaction.

Each locks the series' row first, and what it says is carried out at once: the planner finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from uuid import UUID

from reminders.calendar.recurrence import Occurrence as Turn
from reminders.domain.errors import Conflict, InvalidInput, NotFound, Refused
from reminders.ledger import changing
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.changing import CancelResult
from reminders.ledger.occurrences import (
    GIVE_UP_WITHDRAWN,
    OPEN,
    Occurrence,
    bring,
    coming,
    find,
    make,
    withdraw,
)
from reminders.ledger.planning import decide, record_skips
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.series_rows import (
    EXISTING,
    Series,
    definition,
    get_series,
    insert_series,
    lock_series,
)
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Planned, skips
from reminders.pipeline.series_request import SeriesRequest

MOST_SKIPPED = 1000
"""Turns that may be left out one by one."""
_REACH = timedelta(days=3)
"""Around a wall time, within which its instant lies."""
_MOMENT = timedelta(microseconds=1)

EDIT = Statement(
    "series_edit",
    """
UPDATE {s}.series
SET destination = :destination, destination_id = :destination_id, deduplicates = :deduplicates, data = :data,
    start_wall = :start_wall, rule = :rule, extra = :extra, left_out = :left_out, zone = :zone, follows_user = :follows_user,
    catch_up = :catch_up, max_lateness = :max_lateness, version = version + 1, changed_at = clock_timestamp()
WHERE id = :id RETURNING 1
""",
    {
        "id": "uuid", "destination": "text", "destination_id": "uuid", "deduplicates": "boolean", "data": "jsonb",
        "start_wall": "text", "rule": "text", "extra": "text[]", "left_out": "text[]", "zone": "text",
        "follows_user": "boolean", "catch_up": "text", "max_lateness": "float8",
    },
)  # fmt: skip

SET_STATUS = Statement(
    "series_set_status",
    """
UPDATE {s}.series
SET status = :status, plan_at = CASE WHEN :status = 'active' THEN :until END, planned_until = :until, fault = NULL,
    replan = false, version = version + (status <> :status)::integer, changed_at = clock_timestamp()
WHERE id = :id RETURNING 1
""",
    {"id": "uuid", "status": "text", "until": "timestamptz"},
)

SET_SKIPPED = Statement(
    "series_set_skipped",
    "UPDATE {s}.series SET skipped = :skipped, version = version + 1, changed_at = clock_timestamp() WHERE id = :id RETURNING 1",
    {"id": "uuid", "skipped": "text[]"},
)


def schedule(
    connection: CallersConnection, schema: str, request: SeriesRequest, now: datetime | None = None
) -> tuple[Series, bool]:
    """Schedule a series and its next occurrence; or find it as it stands. Whether it was made.

    Raises `Conflict`; `InvalidInput` if it is new and no turn is left.
    """
    run = partial(fetch, connection, schema)
    over = request.recurrence().after(now or datetime.now(UTC)) is None
    if over and not run(EXISTING, identity_key=request.identity_key.hex()):
        raise InvalidInput("start" if request.rule is None else "rule", "has no turn left; its last one has passed")
    if insert_series(run, request, now):
        made = lock_series(run, request.id, now)
        # Nothing before this instant is ever made.
        decide(connection, schema, [replace(made, now=made.planned_until)])
        return get_series(run, request.id, now), True
    ((known, known_hash),) = run(EXISTING, identity_key=request.identity_key.hex())
    if known_hash != request.request_hash.hex():
        about = "these times" if request.reference is None else f"reference {request.reference!r}"
        raise Conflict(
            f"series {known} already stands for this tenant, user, kind, channel, slot and {about}, asked for otherwise; "
            "edit it, or give the new one its own slot"
        )
    return get_series(run, UUID(known), now), False


def edit(
    connection: CallersConnection, schema: str, series: Series, request: SeriesRequest, now: datetime | None = None
) -> Series:
    """Give a series, which `ready_to_change` has locked, another definition. What is due later than now follows it."""
    run = partial(fetch, connection, schema)
    run(EDIT, id=str(series.id), **definition(request))
    if series.status == "paused":
        return get_series(run, series.id, now)
    return _replanned(connection, schema, series.id, now)


def ready_to_change(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Lock a series, and decide on what has come due by its rule as it is. Raises `NotFound`; `Refused` if it is cancelled."""
    run = partial(fetch, connection, schema)
    found = lock_series(run, series_id, now)
    if found.status == "cancelled":
        raise Refused(f"series {series_id} is cancelled; schedule another one, with its own slot")
    while found.status == "active" and found.fault is None and found.planned_until <= found.now:
        decide(connection, schema, [found])
        found = replace(get_series(run, series_id, now), now=found.now)
    if found.status == "paused":
        _record_pause(connection, schema, found)
    return found


def _record_pause(connection: CallersConnection, schema: str, series: Series) -> None:
    """Note what a pause has let pass so far, by the rule as it is; none of it is sent any more."""
    run = partial(fetch, connection, schema)
    passed = list(takewhile(lambda turn: turn.at <= series.now, series.when().since(series.planned_until)))
    for recurrence_id, at, moved in run(GIVE_UP_WITHDRAWN, series=str(series.id), until=series.now):
        # Its time is the row's, where a person had moved it into the pause.
        if moved and recurrence_id not in series.skipped:
            passed.append(Turn(at.astimezone(UTC), at.replace(tzinfo=None), recurrence_id))
    record_skips(
        connection, schema, [(series, each) for each in skips([(turn, "paused") for turn in passed], series.now)]
    )
    run(SET_STATUS, id=str(series.id), status="paused", until=series.now)


def pause(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Withdraw what is due later than now, and plan nothing more. What has come due is sent."""
    found = ready_to_change(connection, schema, series_id, now)
    if found.status == "ended":
        raise Refused(f"series {series_id} has ended: there is nothing to pause")
    if found.status == "active":
        for each in coming(connection, schema, [found])[found.id]:
            if each.live is not None:
                withdraw(connection, schema, each.id)
        fetch(connection, schema, SET_STATUS, id=str(series_id), status="paused", until=found.now)
    return get_series(partial(fetch, connection, schema), series_id, now)


def resume(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Go on with the first turn after now. Those of the pause are recorded as skipped."""
    found = ready_to_change(connection, schema, series_id, now)
    if found.status == "ended":
        raise Refused(f"series {series_id} has ended: no turn is left; an edit may give it new ones")
    if found.status != "paused":
        return found
    run = partial(fetch, connection, schema)
    for each in coming(connection, schema, [found])[found.id]:
        if each.withdrawn and each.moved and each.recurrence_id not in found.skipped:
            bring(connection, schema, found, each)
    run(SET_STATUS, id=str(series_id), status="active", until=found.now)
    return _replanned(connection, schema, series_id, now)


def cancel(
    connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None
) -> dict[UUID, CancelResult]:
    """End a series for good, with every occurrence that is open; what each has become."""
    run = partial(fetch, connection, schema)
    found = lock_series(run, series_id, now)
    if found.status != "cancelled":
        run(SET_STATUS, id=str(series_id), status="cancelled", until=found.now)
    ids = [UUID(row[0]) for row in run(OPEN, series=str(series_id))]
    return {each: changing.cancel(connection, schema, each) for each in ids}


def skip(
    connection: CallersConnection, schema: str, series_id: UUID, turn: datetime, now: datetime | None = None
) -> CancelResult:
    """Leave one turn out. It answers as `cancel` does, and `cancelled` for one that is no reminder yet."""
    found = ready_to_change(connection, schema, series_id, now)
    wanted = turn_at(found, turn)
    run = partial(fetch, connection, schema)
    if wanted.recurrence_id not in found.skipped:
        if len(found.skipped) >= MOST_SKIPPED:
            raise Refused(f"series {series_id} leaves out {MOST_SKIPPED:,} turns one by one; edit its rule instead")
        run(SET_SKIPPED, id=str(series_id), skipped=sorted({*found.skipped, wanted.recurrence_id}))
    occurrence = find(connection, schema, found, wanted.recurrence_id)
    result: CancelResult = "cancelled"
    if occurrence is not None and not occurrence.withdrawn and not withdraw(connection, schema, occurrence.id):
        result = changing.cancel(connection, schema, occurrence.id)
    if found.status == "active":
        _replanned(connection, schema, series_id, now)
    return result


def restore(
    connection: CallersConnection, schema: str, series_id: UUID, turn: datetime, now: datetime | None = None
) -> Series:
    """Take back that a turn was left out. Raises `NotFound` if it was not."""
    found = ready_to_change(connection, schema, series_id, now)
    wanted = turn_at(found, turn)
    if wanted.recurrence_id not in found.skipped:
        raise NotFound(f"series {series_id} does not skip its turn {wanted.recurrence_id}")
    run = partial(fetch, connection, schema)
    run(SET_SKIPPED, id=str(series_id), skipped=[each for each in found.skipped if each != wanted.recurrence_id])
    return found if found.status == "paused" else _replanned(connection, schema, series_id, now)


def move(
    connection: CallersConnection,
    schema: str,
    series_id: UUID,
    turn: datetime,
    *,
    due_at: datetime,
    now: datetime | None = None,
) -> ScheduledReminder:
    """Move one turn to another instant (UTC), also one that is no reminder yet. The series goes on as ever.

    Raises `Refused` as `changing.reschedule` does.
    """
    found = ready_to_change(connection, schema, series_id, now)
    if found.status == "paused":
        raise Refused(f"series {series_id} is paused; resume it before you move a turn of it")
    wanted = turn_at(found, turn)
    run = partial(fetch, connection, schema)
    if wanted.recurrence_id in found.skipped:
        run(SET_SKIPPED, id=str(series_id), skipped=[each for each in found.skipped if each != wanted.recurrence_id])
    occurrence = find(connection, schema, found, wanted.recurrence_id) or _made(connection, schema, found, wanted)
    return changing.reschedule(connection, schema, occurrence.id, due_at=due_at, zone=None, expires_at=None)


def turn_at(series: Series, time: datetime) -> Turn:
    """The turn that the rule gives at a time: a wall time in the series' zone, or an instant. Raises `InvalidInput`."""
    if not isinstance(time, datetime):
        raise InvalidInput("turn", f"must be a datetime, not {type(time).__name__}")
    recurrence = series.when().recurrence
    zone = series.effective_zone
    around = time if time.tzinfo is not None else time.replace(tzinfo=series.now.tzinfo)
    near: list[Turn] = []
    for each in recurrence.since(around - _REACH):
        if each.at > around + _REACH:
            break
        near.append(each)
    found = [each for each in near if (each.wall if time.tzinfo is None else each.at) == time]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput("turn", f"comes twice at {time} ({zone}); give its instant, with an offset")
    nearest = min(near, key=lambda each: abs(each.at - around), default=None)
    hint = "" if nearest is None else f"; the nearest one is {nearest.wall} ({zone})"
    raise InvalidInput("turn", f"the series has none at {time}{hint}")


def _made(connection: CallersConnection, schema: str, series: Series, turn: Turn) -> Occurrence:
    following = next(series.when().since(turn.at), None)
    make(connection, schema, [(series, Planned(turn, series.when().expiry(turn, following)))])
    found = find(connection, schema, series, turn.recurrence_id)
    if found is None:
        raise Refused(f"turn {turn.recurrence_id} of series {series.id} has ended, and was purged")
    return found


def _replanned(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None) -> Series:
    run = partial(fetch, connection, schema)
    locked = replace(lock_series(run, series_id, now), replan=True)
    decide(connection, schema, [replace(locked, planned_until=max(locked.planned_until, locked.now + _MOMENT))])
    return get_series(run, series_id, now)


def next_turns(series: Series, number: int) -> Sequence[Turn]:
    """The next turns by the rule, without those that are skipped."""
    return list(islice(series.when().since(series.now), number))

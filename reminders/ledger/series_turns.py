"""One turn of a series, for itself: skipped, brought back, or moved. In the caller's transaction, as all changes of series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from uuid import UUID

from reminders.calendar.recurrence import Occurrence as Turn
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.request import checked_instant
from reminders.ledger import changing
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.changing import CancelResult
from reminders.ledger.occurrences import Occurrence, bring, find, make, withdraw
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.series_changing import ready_to_change, replanned
from reminders.ledger.series_rows import Run, Series, get_series
from reminders.ledger.skip_records import is_recorded, record_skips
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Planned, late, skips

MOST_SKIPPED = 1000
"""Turns that may be left out one by one."""
_REACH = timedelta(days=3)
"""Around a wall time, within which its instant lies."""

SET_SKIPPED = Statement(
    "series_set_skipped",
    "UPDATE {s}.series SET skipped = :skipped, version = version + 1, changed_at = :at WHERE id = :id RETURNING 1",
    {"id": "uuid", "skipped": "text[]", "at": "timestamptz"},
)


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
        set_skipped(run, found, {*found.skipped, wanted.recurrence_id})
    occurrence = find(connection, schema, found, wanted.recurrence_id)
    result: CancelResult = "cancelled"
    if occurrence is not None and not occurrence.withdrawn and not withdraw(connection, schema, found, occurrence):
        result = changing.cancel(connection, schema, occurrence.id)
    if found.status == "active":
        replanned(connection, schema, series_id, found.now)
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
    set_skipped(run, found, set(found.skipped) - {wanted.recurrence_id})
    if found.status == "paused":
        _passed_in_pause(connection, schema, found, wanted)
        return get_series(run, series_id, now)
    _bring_back(connection, schema, found, wanted)
    return replanned(connection, schema, series_id, found.now)


def set_skipped(run: Run, series: Series, turns: Iterable[str]) -> None:
    """Write which turns of a series are left out, as of its `now`."""
    run(SET_SKIPPED, id=str(series.id), skipped=sorted(turns), at=series.now)


def _bring_back(connection: CallersConnection, schema: str, series: Series, turn: Turn) -> None:
    """Revive or make a turn that was left out. The planner looks ahead only: it would not find one of the past."""
    occurrence = find(connection, schema, series, turn.recurrence_id)
    if occurrence is None:
        if series.created_at < turn.at <= series.now:
            planned, records = late(series.when(), turn, series.now)
            make(connection, schema, [] if planned is None else [(series, planned)])
            record_skips(connection, schema, [(series, each) for each in records])
        return
    if not occurrence.withdrawn:
        return
    if occurrence.moved or turn.at > series.now:
        following = next(series.when().since(turn.at), None)
        planned = None if occurrence.moved else Planned(turn, series.when().expiry(turn, following))
        bring(connection, schema, series, occurrence, planned)
        return
    planned, records = late(series.when(), turn, series.now)
    if planned is not None:
        bring(connection, schema, series, occurrence, planned)
    record_skips(connection, schema, [(series, each) for each in records])


def _passed_in_pause(connection: CallersConnection, schema: str, series: Series, turn: Turn) -> None:
    """Note of a turn that is left out no more, if its time has passed while its series is paused."""
    occurrence = find(connection, schema, series, turn.recurrence_id)
    time = occurrence.due_at if occurrence is not None and occurrence.moved else turn.at
    if series.created_at < time <= series.now:
        passed = skips([(replace(turn, at=time), "paused")], series.now)
        record_skips(connection, schema, [(series, each) for each in passed])


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

    Raises `Refused` as `changing.reschedule` does; `InvalidInput` for a turn from before the series was scheduled, and for one
    that passed before an edit gave it.
    """
    found = ready_to_change(connection, schema, series_id, now)
    if found.status == "paused":
        raise Refused(f"series {series_id} is paused; resume it before you move a turn of it")
    wanted = turn_at(found, turn)
    run = partial(fetch, connection, schema)
    left_out = wanted.recurrence_id in found.skipped
    occurrence = find(connection, schema, found, wanted.recurrence_id)
    if occurrence is None:
        _check_movable(connection, schema, found, wanted, left_out=left_out)
        occurrence = _made(connection, schema, found, wanted)
    moved = changing.reschedule(connection, schema, occurrence.id, due_at=due_at, zone=None, expires_at=None)
    if left_out:
        set_skipped(run, found, set(found.skipped) - {wanted.recurrence_id})
        # It may be the series' next turn again.
        replanned(connection, schema, series_id, found.now)
    return moved


def _check_movable(connection: CallersConnection, schema: str, series: Series, turn: Turn, *, left_out: bool) -> None:
    """Refuse a turn that is no reminder, if its time passed when it was no turn of the series."""
    said = f"{turn.wall} ({series.effective_zone})"
    if turn.at <= series.created_at:
        raise InvalidInput("turn", f"{said} is from before the series was scheduled")
    decided = turn.at <= min(series.planned_until, series.now)
    if decided and not left_out and not is_recorded(connection, schema, series.id, turn.recurrence_id):
        raise InvalidInput("turn", f"{said} has passed, and is neither a reminder nor on record as skipped by itself")


def turn_at(series: Series, time: datetime) -> Turn:
    """The turn that the rule gives at a time: a wall time in the series' zone, or an instant. Raises `InvalidInput`."""
    if not isinstance(time, datetime):
        raise InvalidInput("turn", f"must be a datetime, not {type(time).__name__}")
    recurrence = series.when().recurrence
    zone = series.effective_zone
    around = checked_instant("turn", time if time.tzinfo is not None else time.replace(tzinfo=series.now.tzinfo))
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


def next_turns(series: Series, number: int) -> Sequence[Turn]:
    """The next turns by the rule, without those that are skipped."""
    return list(islice(series.when().since(series.now), number))

"""Scheduling and changing series inside the caller's transaction.

Each locks the series' row first, and what it says is carried out at once: the planner finds nothing left to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any
from uuid import UUID

from reminders.calendar.recurrence import Occurrence as Turn
from reminders.domain.errors import Conflict, InvalidInput, Refused
from reminders.domain.identity import ERASED_HASH
from reminders.domain.series import SeriesStatus
from reminders.ledger import changing
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.changing import CancelResult
from reminders.ledger.occurrences import (
    LOCK_WITHDRAWN,
    OPEN,
    WITHDRAWN,
    bring,
    coming,
    withdraw,
)
from reminders.ledger.planning import BROKEN, MOST_ROUNDS, decide, decide_behind_fault, replan_one, too_much
from reminders.ledger.replanning import given_later
from reminders.ledger.series_rows import (
    EXISTING,
    Run,
    Series,
    clock,
    definition,
    get_series,
    insert_series,
    lock_series,
)
from reminders.ledger.skip_records import record_skips
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Before, skips, undecided
from reminders.pipeline.provider import Provider
from reminders.pipeline.series_request import SeriesRequest, to_series_request

IDENTITY = ("tenant_id", "user_id", "kind", "channel", "reference", "slot")
EDITABLE = (
    "destination", "data", "start", "zone", "rule", "extra", "left_out", "follows_user", "catch_up", "max_lateness",
)  # fmt: skip
"""What an edit may change."""

EDIT = Statement(
    "series_edit",
    """
UPDATE {s}.series
SET destination = :destination, destination_id = :destination_id, deduplicates = :deduplicates, data = :data,
    start_wall = :start_wall, rule = :rule, extra = :extra, left_out = :left_out, zone = :zone, follows_user = :follows_user,
    catch_up = :catch_up, max_lateness = :max_lateness, version = version + 1, changed_at = :at
WHERE id = :id RETURNING 1
""",
    {
        "id": "uuid", "destination": "text", "destination_id": "uuid", "deduplicates": "boolean", "data": "jsonb",
        "start_wall": "text", "rule": "text", "extra": "text[]", "left_out": "text[]", "zone": "text",
        "follows_user": "boolean", "catch_up": "text", "max_lateness": "float8", "at": "timestamptz",
    },
)  # fmt: skip

SET_STATUS = Statement(
    "series_set_status",
    """
UPDATE {s}.series
SET status = :status, plan_at = CASE WHEN :status = 'active' THEN :until END, planned_until = :until,
    planned_zone = :zone, fault = NULL,
    replan = false, version = version + (status <> :status)::integer, changed_at = :at
WHERE id = :id RETURNING 1
""",
    {"id": "uuid", "status": "text", "until": "timestamptz", "zone": "text", "at": "timestamptz"},
)


def schedule(
    connection: CallersConnection, schema: str, request: SeriesRequest, now: datetime | None = None
) -> tuple[Series, bool]:
    """Schedule a series and its next occurrence; or find it as it stands. Whether it was made.

    Raises `Conflict`; `InvalidInput` if it is new and no turn is left.
    """
    run = partial(fetch, connection, schema)
    # Nothing before this instant is ever made; all of the call goes by it.
    now = clock(run, now)
    over = request.recurrence().after(now) is None
    if over and not run(EXISTING, identity_key=request.identity_key.hex()):
        raise InvalidInput("start" if request.rule is None else "rule", "has no turn left; its last one has passed")
    if insert_series(run, request, now):
        made = lock_series(run, request.id, now)
        decide(connection, schema, [replace(made, planned_zone=made.effective_zone)])
        return get_series(run, request.id, now), True
    ((known, known_hash),) = run(EXISTING, identity_key=request.identity_key.hex())
    if known_hash not in {request.request_hash.hex(), ERASED_HASH.hex()}:
        about = "these times" if request.reference is None else f"reference {request.reference!r}"
        raise Conflict(
            f"series {known} already stands for this tenant, user, kind, channel, slot and {about}, asked for otherwise; "
            "edit it, or give the new one its own slot"
        )
    return get_series(run, UUID(known), now), False


def edit(
    connection: CallersConnection,
    schema: str,
    series_id: UUID,
    changes: Mapping[str, Any],
    providers: Callable[[str], Provider],
    *,
    now: datetime | None = None,
) -> Series:
    """Give a series another definition: `changes` by the names that `to_series_request` takes, all but those of its identity.

    What is due later than now follows it. Raises as `ready_to_change`, and `InvalidInput`.
    """
    found = ready_to_change(connection, schema, series_id, now)
    kept = {name: getattr(found, name) for name in EDITABLE}
    identity = {name: getattr(found, name) for name in IDENTITY}
    request = to_series_request(providers, **identity, **{**kept, "data": json.loads(found.data), **changes})
    run = partial(fetch, connection, schema)
    run(EDIT, id=str(series_id), at=found.now, **definition(request))
    edited = get_series(run, series_id, found.now)
    try:
        given = given_later(found)
    except BROKEN:
        given = None
    if found.status == "paused":
        _record_pause(connection, schema, edited, given)
    else:
        edited = decide_behind_fault(connection, schema, found, edited)
        replan_one(connection, schema, edited, given)
    return get_series(run, series_id, now)


def ready_to_change(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Lock a series, and decide on what has come due by its rule as it is. Raises `NotFound`; `Refused` if it is cancelled.

    Whoever goes on with it goes by its `now`, the one instant of the call; see `lock_series`.

    What cannot be planned, since the series has a fault, is left undecided.
    """
    run = partial(fetch, connection, schema)
    found = lock_series(run, series_id, now)
    if found.status == "cancelled":
        raise Refused(f"series {series_id} is cancelled; schedule another one, with its own slot")
    rounds = 0
    while found.status == "active" and found.fault is None and _is_behind(found):
        if rounds == MOST_ROUNDS:
            raise Refused(too_much(series_id))
        rounds += 1
        decide(connection, schema, [found])
        found = get_series(run, series_id, found.now)
    if found.status == "paused":
        _record_pause(connection, schema, found)
    return found


def _is_behind(series: Series) -> bool:
    return series.planned_until <= series.now or series.replan or series.planned_zone != series.effective_zone


def _record_pause(
    connection: CallersConnection, schema: str, series: Series, given: frozenset[str] | None = None
) -> None:
    """Note what a pause has let pass so far, by the rule as it is; none of it is sent any more.

    After an edit, `given` are the turns that the rule before it gave later than now.
    """
    run = partial(fetch, connection, schema)
    try:
        before = Before(series.zone_before, given=given)
        turns = undecided(series.when(), series.planned_until, series.now, before)
        passed = list(takewhile(lambda turn: turn.at <= series.now, turns))
    except BROKEN:
        # An edit may cure it, and then it is noted.
        return
    moved = {each.recurrence_id for each in coming(connection, schema, [series])[series.id] if each.moved}
    moved_into_it: list[Turn] = []
    run(LOCK_WITHDRAWN, series=str(series.id), until=series.now)
    for recurrence_id, at, said in run(WITHDRAWN, series=str(series.id), until=series.now):
        # Its time is the row's, where a person had moved it into the pause.
        if said and recurrence_id not in series.skipped:
            moved.add(recurrence_id)
            moved_into_it.append(Turn(at.astimezone(UTC), at.replace(tzinfo=None), recurrence_id))
    passed = [turn for turn in passed if turn.recurrence_id not in moved] + moved_into_it
    record_skips(
        connection, schema, [(series, each) for each in skips([(turn, "paused") for turn in passed], series.now)]
    )
    set_status(run, series, "paused", series.now, series.effective_zone)


def pause(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Withdraw what is due later than now, and plan nothing more. What has come due is sent."""
    run = partial(fetch, connection, schema)
    found = ready_to_change(connection, schema, series_id, now)
    if found.status == "ended":
        raise Refused(f"series {series_id} has ended: there is nothing to pause")
    if found.status == "active":
        for each in coming(connection, schema, [found])[found.id]:
            if each.live is not None:
                withdraw(connection, schema, found, each)
        # What a fault has kept from being planned counts as passed in the pause.
        until = min(found.planned_until, found.now)
        set_status(run, found, "paused", until, found.planned_zone)
    return get_series(run, series_id, now)


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
    set_status(run, found, "active", found.now, found.effective_zone)
    return replanned(connection, schema, series_id, found.now)


def cancel(
    connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None
) -> dict[UUID, CancelResult]:
    """End a series for good, with every occurrence that is open; what each has become."""
    run = partial(fetch, connection, schema)
    found = lock_series(run, series_id, now)
    if found.status != "cancelled":
        set_status(run, found, "cancelled", found.now, found.planned_zone)
    ids = [UUID(row[0]) for row in run(OPEN, series=str(series_id))]
    return {each: changing.cancel(connection, schema, each) for each in ids}


def replanned(connection: CallersConnection, schema: str, series_id: UUID, at: datetime) -> Series:
    """Bring what is due later than `at`, the instant of the call, to where the series has it; the series then.

    It must be locked already.
    """
    run = partial(fetch, connection, schema)
    replan_one(connection, schema, get_series(run, series_id, at))
    return get_series(run, series_id, at)


def set_status(run: Run, series: Series, status: SeriesStatus, until: datetime, zone: str) -> None:
    """Write a series' status, as of its `now`; it is decided up to `until`, by the clocks of `zone`."""
    run(SET_STATUS, id=str(series.id), status=status, until=until, zone=zone, at=series.now)

"""Scheduling and changing series inside the caller's transaction.

Each locks the series' row first, and what it says is carried out at once: the planner finds nothing left to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any
from uuid import UUID

from reminders.calendar.recurrence import Occurrence as Turn
from reminders.domain.errors import Conflict, InvalidInput, Refused
from reminders.ledger import changing
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.changing import CancelResult
from reminders.ledger.occurrences import (
    GIVE_UP_WITHDRAWN,
    OPEN,
    bring,
    coming,
    withdraw,
)
from reminders.ledger.planning import decide, record_skips
from reminders.ledger.series_rows import (
    EXISTING,
    Series,
    definition,
    get_series,
    insert_series,
    lock_series,
)
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import skips
from reminders.pipeline.provider import Provider
from reminders.pipeline.series_request import SeriesRequest, to_series_request

IDENTITY = ("tenant_id", "user_id", "kind", "channel", "reference", "slot")
EDITABLE = (
    "destination", "data", "start", "zone", "rule", "extra", "left_out", "follows_user", "catch_up", "max_lateness",
)  # fmt: skip
"""What an edit may change."""
MOST_ROUNDS = 100
"""In which a call decides on the turns that nobody has decided on yet, some ten thousand each."""
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
    run(EDIT, id=str(series_id), **definition(request))
    if found.status == "paused":
        return get_series(run, series_id, now)
    return replanned(connection, schema, series_id, now)


def ready_to_change(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None = None) -> Series:
    """Lock a series, and decide on what has come due by its rule as it is. Raises `NotFound`; `Refused` if it is cancelled."""
    run = partial(fetch, connection, schema)
    found = lock_series(run, series_id, now)
    if found.status == "cancelled":
        raise Refused(f"series {series_id} is cancelled; schedule another one, with its own slot")
    rounds = 0
    while found.status == "active" and found.fault is None and found.planned_until <= found.now:
        if rounds == MOST_ROUNDS:
            raise Refused(
                f"series {series_id} has more turns behind it than one call decides on; once the scanner has, try again"
            )
        rounds += 1
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
    return replanned(connection, schema, series_id, now)


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


def replanned(connection: CallersConnection, schema: str, series_id: UUID, now: datetime | None) -> Series:
    """Bring what is due later than now to where the series has it; the series then. It must be locked already."""
    run = partial(fetch, connection, schema)
    locked = replace(lock_series(run, series_id, now), replan=True)
    decide(connection, schema, [replace(locked, planned_until=max(locked.planned_until, locked.now + _MOMENT))])
    return get_series(run, series_id, now)

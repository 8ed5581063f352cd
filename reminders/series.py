"""Series: reminders that recur, for applications. Each function works inside the caller's own transaction, as those of
`reminders.api` do, and what it says is carried out at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Literal
from uuid import UUID

from reminders.api import _provider, _settings, _uuid
from reminders.domain.request import checked_instant
from reminders.domain.series import CatchUp, SeriesStatus
from reminders.ledger import series_changing, series_rows, series_turns
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.changing import CancelResult
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.series_rows import Series
from reminders.pipeline.schedule import resolve_instant
from reminders.pipeline.series_request import to_series_request


class Kept(Enum):
    """Says of a part of a series that it stays as it is."""

    KEPT = "kept"


KEPT: Literal[Kept.KEPT] = Kept.KEPT
KeptType = Literal[Kept.KEPT]


@dataclass(frozen=True, slots=True)
class ScheduledSeries:
    """A series as it stands in the ledger. `next_at` is its next turn by the rule, UTC; None unless it is active.

    `created` is false when an earlier request had made it.
    """

    id: UUID
    status: SeriesStatus
    version: int
    next_at: datetime | None
    created: bool = False


def schedule_series(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str,
    kind: str,
    channel: str,
    destination: str,
    start: datetime,
    zone: str,
    rule: str | None = None,
    extra: Sequence[datetime] = (),
    left_out: Sequence[datetime] = (),
    follows_user: bool = False,
    reference: str | None = None,
    slot: str | None = None,
    data: Mapping[str, Any] | None = None,
    catch_up: CatchUp = "latest",
    max_lateness: float | None = None,
) -> ScheduledSeries:
    """Schedule what recurs: `rule` (RRULE of RFC 5545) from `start` on, with `extra` times and without those `left_out`.

    All of these are naive wall times in `zone`; with `follows_user`, in the zone of the recipient as soon as it is known.
    Turns before this call are not made. With tenant, user, kind, channel and `slot`, `reference` says which series it is
    (without it `start` and `rule` do), and scheduling it again returns it as it stands. `catch_up` says what becomes of turns
    that an outage let pass: only the newest is sent (`latest`), none is (`skip`), or all are (`all`, the newest hundred).
    `max_lateness`, in seconds, is when sending an occurrence has become worse than not sending.

    Raises `InvalidInput` naming the field, also for a rule that never fires any more or fires more often than once a minute;
    `Conflict` if the same series stands with other content.
    """
    request = to_series_request(
        _provider,
        tenant_id=tenant_id,
        user_id=user_id,
        kind=kind,
        channel=channel,
        destination=destination,
        start=start,
        zone=zone,
        rule=rule,
        extra=extra,
        left_out=left_out,
        follows_user=follows_user,
        reference=reference,
        slot=slot,
        data=data,
        catch_up=catch_up,
        max_lateness=max_lateness,
    )
    series, created = series_changing.schedule(connection, _settings().schema, request)
    return _scheduled(series, created=created)


def edit_series(
    connection: CallersConnection,
    series_id: UUID | str,
    *,
    destination: str | KeptType = KEPT,
    data: Mapping[str, Any] | KeptType | None = KEPT,
    start: datetime | KeptType = KEPT,
    zone: str | KeptType = KEPT,
    rule: str | KeptType | None = KEPT,
    extra: Sequence[datetime] | KeptType = KEPT,
    left_out: Sequence[datetime] | KeptType = KEPT,
    follows_user: bool | KeptType = KEPT,
    catch_up: CatchUp | KeptType = KEPT,
    max_lateness: float | KeptType | None = KEPT,
) -> ScheduledSeries:
    """Change parts of a series. Occurrences that are due later than now follow it; what has come due does not.

    What the new rule does not give is withdrawn, what it gives at another instant or with other content is moved under a new
    version; what a person has moved keeps its time. An ended series that is given new turns goes on.

    Raises `NotFound`; `Refused` if it is cancelled; `InvalidInput`.
    """
    given = {
        "destination": destination,
        "data": data,
        "start": start,
        "zone": zone,
        "rule": rule,
        "extra": extra,
        "left_out": left_out,
        "follows_user": follows_user,
        "catch_up": catch_up,
        "max_lateness": max_lateness,
    }
    changes = {name: value for name, value in given.items() if not isinstance(value, Kept)}
    wanted = _uuid(series_id, "series_id")
    return _scheduled(series_changing.edit(connection, _settings().schema, wanted, changes, _provider))


def pause_series(connection: CallersConnection, series_id: UUID | str) -> ScheduledSeries:
    """Make nothing more of a series until `resume_series`; what is due later than now is withdrawn.

    Raises `NotFound`; `Refused` if it has ended or is cancelled.
    """
    return _scheduled(series_changing.pause(connection, _settings().schema, _uuid(series_id, "series_id")))


def resume_series(connection: CallersConnection, series_id: UUID | str) -> ScheduledSeries:
    """Go on with a paused series. Turns of the pause are recorded as skipped, and never sent.

    Raises `NotFound`; `Refused` if it has ended or is cancelled.
    """
    return _scheduled(series_changing.resume(connection, _settings().schema, _uuid(series_id, "series_id")))


def cancel_series(connection: CallersConnection, series_id: UUID | str) -> dict[UUID, CancelResult]:
    """End a series for good. For each occurrence that was open, by its reminder's id, what `cancel` says of it.

    Raises `NotFound`.
    """
    return series_changing.cancel(connection, _settings().schema, _uuid(series_id, "series_id"))


def skip_occurrence(connection: CallersConnection, series_id: UUID | str, turn: datetime) -> CancelResult:
    """Leave out one turn, given by its wall time in the series' zone or by its instant; answers as `cancel` does.

    Raises `NotFound`; `Refused` if the series is cancelled; `InvalidInput` if the rule has no such turn.
    """
    return series_turns.skip(connection, _settings().schema, _uuid(series_id, "series_id"), turn)


def restore_occurrence(connection: CallersConnection, series_id: UUID | str, turn: datetime) -> ScheduledSeries:
    """Take back that a turn was skipped. One whose time has passed stays unsent; `move_occurrence` sends it later.

    Raises as `skip_occurrence`; `NotFound` also if it is not skipped.
    """
    return _scheduled(series_turns.restore(connection, _settings().schema, _uuid(series_id, "series_id"), turn))


def move_occurrence(
    connection: CallersConnection, series_id: UUID | str, turn: datetime, *, due_at: datetime, zone: str | None = None
) -> ScheduledReminder:
    """Move one turn to another time; the series goes on as ever. `due_at` and `zone` are as for `reschedule`.

    Raises as `skip_occurrence`, and `Refused` as `reschedule` does, or while the series is paused.
    """
    due_at = checked_instant("due_at", resolve_instant("due_at", due_at, zone))
    schema = _settings().schema
    return series_turns.move(connection, schema, _uuid(series_id, "series_id"), turn, due_at=due_at)


def get_series(connection: CallersConnection, series_id: UUID | str) -> Series:
    """The series as it stands, seen from the caller's transaction. Raises `NotFound`."""
    return series_rows.get_series(partial(fetch, connection, _settings().schema), _uuid(series_id, "series_id"))


def _scheduled(series: Series, *, created: bool = False) -> ScheduledSeries:
    return ScheduledSeries(series.id, series.status, series.version, series.plan_at, created)

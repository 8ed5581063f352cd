"""Plan: which turns of a series become reminders now. Pure: the ledger keeps what is decided here.

At all times exactly the next turn of an active series is made, and when that comes due, the one after it. So whatever
becomes of a reminder, its series goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from reminders.calendar.recurrence import Occurrence, Recurrence
from reminders.domain.request import LAST_YEAR
from reminders.domain.series import CatchUp, SkipReason

GRACE = 300.0
"""Seconds by which a turn may be late without counting as missed, for series that skip what they missed."""
LATENESS_WHEN_SKIPPING = 3600.0
"""Seconds by which a reminder of such a series may be late, unless it says otherwise."""
MOST_CAUGHT_UP = 100
"""Missed turns that are made at once, for series that catch up with all."""
MOST_SKIPS = 1000
"""Skipped turns that are recorded one by one; what is older is one record with their number."""
MOST_LOOKED_AT = 10_000
"""Missed turns that one pass looks at; the next pass goes on."""
ZONES_APART = timedelta(hours=27)
"""Clocks of two zones differ by at most 26 hours."""


@dataclass(frozen=True, slots=True)
class When:
    """When a series fires, without the turns that somebody has skipped, and how it catches up. Lateness in seconds."""

    recurrence: Recurrence
    skipped: frozenset[str]
    catch_up: CatchUp
    max_lateness: float | None

    def since(self, instant: datetime) -> Iterator[Occurrence]:
        """The turns later than `instant`, in order."""
        return self.without_skipped(self.recurrence.since(instant))

    def without_skipped(self, turns: Iterator[Occurrence]) -> Iterator[Occurrence]:
        """Those of these turns, in order, that fire."""
        near = takewhile(lambda turn: turn.at.year <= LAST_YEAR, turns)
        return (turn for turn in near if turn.recurrence_id not in self.skipped)

    def expiry(self, turn: Occurrence, following: Occurrence | None) -> datetime | None:
        """When sending this one has become worse than not sending: `following` is the turn after it."""
        ends = []
        if self.catch_up == "latest" and following is not None:
            ends.append(following.at)
        lateness = self.lateness
        if lateness is not None:
            ends.append(turn.at + timedelta(seconds=lateness))
        return min(ends, default=None)

    @property
    def lateness(self) -> float | None:
        """Seconds by which a reminder may be late; None for any number."""
        if self.max_lateness is None and self.catch_up == "skip":
            return LATENESS_WHEN_SKIPPING
        return self.max_lateness


@dataclass(frozen=True, slots=True)
class Before:
    """What a series was planned by until a change: it tells which turns were decided.

    `zone` is the one it was planned in, `ahead` names the turns that were made and had not come due. `given` names those that
    the rule gave then as later than now; None if it is the same rule.
    """

    zone: str
    ahead: frozenset[str] = frozenset()
    given: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A turn that is to be a reminder."""

    turn: Occurrence
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Skip:
    """A turn that is not made, or `count` of them, of which this is the newest."""

    turn: Occurrence
    lateness: timedelta
    reason: SkipReason
    count: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make and what to record; and up to where the series is decided then.

    `plan_at` is when to look again: None if no turn is left, not later than now if there is more to look at.
    """

    make: list[Planned]
    skips: list[Skip]
    planned_until: datetime
    plan_at: datetime | None


def plan(when: When, until: datetime, now: datetime, before: Before | None = None) -> Plan:
    """Decide on every turn after `until` that has come due by `now`, and on the one that comes next.

    With `before`, `until` is meant by the clocks of then: see `undecided`.
    """
    coming = when.since(until) if before is None else undecided(when, until, now, before)
    missed: list[Occurrence] = []
    following: Occurrence | None = None
    for turn in coming:
        if turn.at > now:
            following = turn
            break
        missed.append(turn)
        if len(missed) == MOST_LOOKED_AT:
            # Whatever the policy is, it wants none but the newest of those that come after these.
            old = missed[:-MOST_CAUGHT_UP]
            reasons: dict[CatchUp, SkipReason] = {"latest": "superseded", "all": "cap", "skip": "missed"}
            return Plan([], skips([(turn, reasons[when.catch_up]) for turn in old], now), old[-1].at, old[-1].at)
    made, left_out = _choose(when, missed, following, now)
    if following is None:
        return Plan(made, skips(left_out, now), now, None)
    made.append(Planned(following, when.expiry(following, next(coming, None))))
    return Plan(made, skips(left_out, now), following.at, following.at)


def undecided(when: When, until: datetime, now: datetime, before: Before) -> Iterator[Occurrence]:
    """The turns that are later than `until` by the clocks of before, or by those of now, in order.

    A turn is the same one wherever its zone is: other clocks may have jumped over it, or have it come a second time. What is
    a reminder already stays one.
    """
    reached = False
    for turn in when.since(until - ZONES_APART):
        reached = reached or turn.recurrence_id in before.ahead
        if turn.at <= now:
            if not reached and max(turn.at, turn.in_zone(before.zone)) <= until:
                continue
            if before.given is not None and turn.recurrence_id not in before.given | before.ahead:
                continue
        yield turn


def late(when: When, turn: Occurrence, now: datetime) -> tuple[Planned | None, list[Skip]]:
    """What becomes of one turn that is wanted again after its time."""
    made, left_out = _choose(when, [turn], next(when.since(now), None), now)
    return (made[0] if made else None), skips(left_out, now)


def skips(left_out: Sequence[tuple[Occurrence, SkipReason]], now: datetime) -> list[Skip]:
    """Records of turns that are not made, oldest first."""
    older, newest = left_out[:-MOST_SKIPS], left_out[-MOST_SKIPS:]
    found = [Skip(turn, now - turn.at, reason) for turn, reason in newest]
    if older:
        turn, reason = older[-1]
        found.insert(0, Skip(turn, now - turn.at, reason, len(older)))
    return found


def _choose(
    when: When, missed: Sequence[Occurrence], following: Occurrence | None, now: datetime
) -> tuple[list[Planned], list[tuple[Occurrence, SkipReason]]]:
    """Of turns that have come due, in order: those that are made all the same, and why the others are not."""
    made: list[Planned] = []
    left_out: list[tuple[Occurrence, SkipReason]] = []
    lateness = when.lateness
    for position, turn in enumerate(missed):
        later = len(missed) - 1 - position
        late = (now - turn.at).total_seconds()
        reason: SkipReason | None = None
        if when.catch_up == "latest" and later:
            reason = "superseded"
        elif lateness is not None and late >= lateness:
            reason = "too_late"
        elif when.catch_up == "skip" and late > GRACE:
            reason = "missed"
        elif when.catch_up == "all" and later >= MOST_CAUGHT_UP:
            reason = "cap"
        if reason is not None:
            left_out.append((turn, reason))
            continue
        after = missed[position + 1] if later else following
        made.append(Planned(turn, when.expiry(turn, after)))
    return made, left_out

"""When a series fires: RFC 5545 recurrence in the civil time of a zone, in the order of instants.

- A rule is expanded as wall times, and each wall time becomes an instant by the one rule of `reminders.calendar.zones`.
  Dates that do not exist (30 February, the 31st of June) are left out, as RFC 5545 section 3.3.10 has it.
- HOURLY and MINUTELY count the time that passes, so that a change of the clocks neither doubles nor drops a turn; their
  BY parts look at what clocks show at an instant.
- Occurrences that fall on the same instant are one.
- Nothing is looked for further than fifty years ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile

from reminders.calendar.civil_rule import wall_times
from reminders.calendar.elapsed_rule import elapsed_instants
from reminders.calendar.neighbours import walls_near
from reminders.calendar.rules import LEAST_SECONDS_APART, Rule
from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.errors import InvalidInput

LOOKED_AT = 400
"""How many occurrences are looked at, to refuse a series that fires too often."""
LOOKED_AHEAD = timedelta(days=5 * 366)
"""How far from the first one they are looked for."""
_APART = timedelta(days=2)
"""Wall times further apart than this keep their order as instants: no zone has ever changed by more than a day."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """One turn of a series. `at` is UTC; `wall` is the time that the rule gives, naive, in the series' zone.

    `recurrence_id` names it for good, however it is moved later: the wall time, or for rules that count the time that
    passes, the instant.
    """

    at: datetime
    wall: datetime
    recurrence_id: str

    def in_zone(self, zone: str) -> datetime:
        """The instant (UTC) at which this same turn comes where the clocks are those of `zone`."""
        return self.at if self.recurrence_id.endswith("Z") else to_instant(self.wall, zone)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """When a series fires. All times but those inside `rule` are naive wall times in `zone`.

    `start` is the earliest; it is itself an occurrence if there is no rule, or if the rule gives it. Times in `extra`
    fire besides (RDATE), those in `left_out` do not (EXDATE).
    """

    start: datetime
    zone: str
    rule: Rule | None = None
    extra: tuple[datetime, ...] = ()
    left_out: tuple[datetime, ...] = ()

    def after(self, instant: datetime, *, inclusive: bool = False) -> Occurrence | None:
        """The first occurrence later than `instant` (aware), or at it if `inclusive`. None if none ever comes."""
        return next(self.since(instant, inclusive=inclusive), None)

    def since(self, instant: datetime, *, inclusive: bool = False) -> Iterator[Occurrence]:
        """Those later than `instant` (aware), or at it if `inclusive`, in the order of their instants."""
        for occurrence in self._in_order(instant):
            if occurrence.at > instant or (inclusive and occurrence.at == instant):
                yield occurrence

    def all(self) -> Iterator[Occurrence]:
        """All of them, from the first, in the order of their instants."""
        return self._in_order(None)

    def check(self, field: str = "rule") -> None:
        """Raise `InvalidInput` naming `field` if it never fires, or more often than once a minute."""
        turns = self.all()
        first = next(turns, None)
        if first is None:
            raise InvalidInput(field, "never fires; look at its dates, UNTIL and exceptions")
        # A rule that fires once in decades would be searched for thousands of years.
        near = takewhile(lambda turn: turn.at - first.at < LOOKED_AHEAD, turns)
        for earlier, later in pairwise((first, *islice(near, LOOKED_AT))):
            if (later.at - earlier.at).total_seconds() < LEAST_SECONDS_APART:
                raise self._too_often(field, earlier.wall, later.wall)
        self._check_extra(field)

    def _check_extra(self, field: str) -> None:
        """The same for added times however far ahead, which are looked at one by one."""
        extra = sorted(self._of_wall(wall) for wall in set(self.extra) - set(self.left_out))
        for earlier, later in pairwise(extra):
            if 0 < (later.at - earlier.at).total_seconds() < LEAST_SECONDS_APART:
                raise self._too_often(field, earlier.wall, later.wall)
        for each in extra:
            for wall in walls_near(self.rule, self.start, self.zone, each.at):
                if wall not in self.left_out:
                    raise self._too_often(field, *sorted((wall, each.wall)))

    def _too_often(self, field: str, earlier: datetime, later: datetime) -> InvalidInput:
        return InvalidInput(field, f"fires more often than once a minute, at {earlier} and {later} ({self.zone})")

    def _in_order(self, instant: datetime | None) -> Iterator[Occurrence]:
        """From about `instant` on, each instant once."""
        last: datetime | None = None
        for found in self._sorted(instant):
            if found.at != last:
                yield found
            last = found.at

    def _sorted(self, instant: datetime | None) -> Iterator[Occurrence]:
        """What the rule and the additions give, without what is left out."""
        since = None if instant is None else _naive(instant) - _APART
        left_out = frozenset(self.left_out)
        extra = (self._of_wall(wall) for wall in sorted(set(self.extra)) if since is None or wall >= since)
        if self.rule is not None and self.rule.elapsed:
            # These come in the order of instants by themselves: nothing long before has to be looked at.
            counted = self._of_rule(None if instant is None else _naive(instant) - _HOUR)
            both = heapq.merge(counted, sorted(extra), key=lambda occurrence: occurrence.at)
            return (found for found in both if found.wall not in left_out)
        merged = heapq.merge(self._of_rule(since), extra, key=lambda occurrence: occurrence.wall)
        return _back_in_order(found for found in merged if found.wall not in left_out)

    def _of_rule(self, since: datetime | None) -> Iterator[Occurrence]:
        if self.rule is None:
            return iter([self._of_wall(self.start)])
        if self.rule.elapsed:
            return (self._of_instant(at) for at in elapsed_instants(self.rule, self.start, self.zone, since))
        return (self._of_wall(wall) for wall in wall_times(self.rule, self.start, self.zone, since))

    def _of_wall(self, wall: datetime) -> Occurrence:
        return Occurrence(to_instant(wall, self.zone), wall, wall.strftime("%Y%m%dT%H%M%S"))

    def _of_instant(self, at: datetime) -> Occurrence:
        wall = at.astimezone(load_zone(self.zone)).replace(tzinfo=None, fold=0)
        return Occurrence(at, wall, at.strftime("%Y%m%dT%H%M%SZ"))


def _back_in_order(by_wall: Iterator[Occurrence]) -> Iterator[Occurrence]:
    """In the order of instants: a change of the clocks can swap two wall times."""
    waiting: list[Occurrence] = []
    for found in by_wall:
        heapq.heappush(waiting, found)
        while waiting[0].wall + _APART <= found.wall:
            yield heapq.heappop(waiting)
    while waiting:
        yield heapq.heappop(waiting)


def instant_of(recurrence_id: str, zone: str) -> datetime:
    """The instant (UTC) at which the turn of this name comes in a zone."""
    time = datetime.strptime(recurrence_id.rstrip("Z"), "%Y%m%dT%H%M%S")  # noqa: DTZ007 - a wall time, or made UTC below
    return time.replace(tzinfo=UTC) if recurrence_id.endswith("Z") else to_instant(time, zone)


def take(occurrences: Iterator[Occurrence], number: int) -> Sequence[Occurrence]:
    """The first `number` of them."""
    return list(islice(occurrences, number))


def _naive(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(tzinfo=None)

"""When the turns of one event happen: its rule, what stands for single turns, and what stands for all later ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from reminders.calendar.recurrence import Occurrence
from reminders.intake.ical.alarms import Alarm
from reminders.intake.ical.events import Event, Length, in_zone, recurrence

_MARGIN = timedelta(days=3)
"""No zone's clocks are further than this from what a day of 24 hours would make of them."""
_FORM = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an event, of which `event` is the component that describes it; `start` and `end` in UTC.

    `recurrence_id` is its original start in its series, whatever it was moved to; empty for an event that does not recur.
    """

    event: Event
    recurrence_id: str
    start: datetime
    end: datetime


class Revised:
    """The components of one UID: the event itself, if it is there, and those for single turns or all from one on."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.master = next((event for event in events if event.which is None), None)
        self._events = events
        self.single: dict[str, Event] = {}
        self._days: set[date] = set()
        later: list[tuple[datetime, Event]] = []
        for event in events:
            if event.which is None:
                continue
            if event.and_future:
                later.append((self._wall(event), event))
            else:
                self.single[self._name(event)] = event
                if event.which.is_date and self.master is not None and not self.master.start.is_date:
                    self._days.add(event.which.wall.date())
        self._later = sorted(later, key=lambda pair: pair[0])

    def turns(self, since: datetime | None, until: datetime) -> Iterator[Turn]:
        """Those whose alarms may ring from `since` (None: ever) until `until`; some that do not may be among them."""
        for name, event in self.single.items():
            yield _turn(event, name, event.start.instant(), event.length)
        if self.master is None:
            for wall, event in self._later:
                yield _turn(event, wall.strftime(_FORM), event.start.instant(), event.length)
        elif not self.master.recurs:
            if not self.single:
                yield _turn(self.master, "", self.master.start.instant(), self.master.length)
        else:
            yield from self._recurring(self.master, since, until)

    def about(self, recurrence_id: str) -> Event | None:
        """Which of these components, in a message about them alone, tells of that turn; None if none does."""
        if recurrence_id in self.single:
            return self.single[recurrence_id]
        later = (event for wall, event in reversed(self._later) if wall.strftime(_FORM) <= recurrence_id)
        return next(later, self.master)

    def components(self) -> Iterator[tuple[str, Event]]:
        """Each with the turn that it stands for or begins with; the event as a whole with none."""
        if self.master is not None:
            yield "", self.master
        yield from self.single.items()
        for wall, event in self._later:
            yield wall.strftime(_FORM), event

    def _recurring(self, master: Event, since: datetime | None, until: datetime) -> Iterator[Turn]:
        alarms = [alarm for event in self._events for alarm in event.alarms]
        last = until + _MARGIN + _longest(alarms, -1)
        for found in _since(master, self._first(since, alarms)):
            if found.at > last:
                return
            name = found.recurrence_id
            day = found.wall.date()
            if name in self.single or day in self._days or day in master.days_left_out:
                continue
            event = next((event for wall, event in reversed(self._later) if wall <= found.wall), master)
            if event is master:
                length = master.lengths.get(found.wall, master.length)
                at = found.at if master.start.zone.name is not None else master.start.zone.to_instant(found.wall)
            else:
                length = event.length
                at = event.start.zone.to_instant(event.start.wall + (found.wall - self._wall(event)))
            yield _turn(event, name, at, length)

    def _first(self, since: datetime | None, alarms: Sequence[Alarm]) -> datetime | None:
        if since is None:
            return None
        longest = max(event.length.span.length for event in self._events)
        moved = max((abs(event.start.wall - self._wall(event)) for _, event in self._later), default=timedelta())
        try:
            return since - _MARGIN - _longest(alarms, 1) - longest - moved
        except OverflowError:
            return None

    def _wall(self, event: Event) -> datetime:
        """A RECURRENCE-ID as wall time of the series."""
        assert event.which is not None
        return event.which.wall if self.master is None else in_zone(event.which, self.master.start)

    def _name(self, event: Event) -> str:
        assert event.which is not None
        if self.master is not None and self.master.rule is not None and self.master.rule.elapsed:
            return event.which.instant().strftime(f"{_FORM}Z")
        return self._wall(event).strftime(_FORM)


def _since(master: Event, first: datetime | None) -> Iterator[Occurrence]:
    series = recurrence(master)
    return series.all() if first is None else series.since(first.astimezone(UTC), inclusive=True)


def _turn(event: Event, name: str, start: datetime, length: Length) -> Turn:
    return Turn(event, name, start, length.end(start, event.start.zone))


def _longest(alarms: Sequence[Alarm], sign: int) -> timedelta:
    """The furthest that an alarm rings after its event (1), or before it (-1)."""
    return max((alarm.span.length * sign for alarm in alarms), default=timedelta()) if alarms else timedelta()

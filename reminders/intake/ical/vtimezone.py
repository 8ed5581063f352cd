"""Zones that a calendar defines itself (VTIMEZONE), by the same rule for gaps and repeated hours as IANA zones."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile

from reminders.calendar.civil_rule import wall_times
from reminders.calendar.rules import parse_rule
from reminders.domain.errors import InvalidInput
from reminders.intake.ical.components import Component, Property
from reminders.intake.ical.values import read_offset, read_time

FIRST, LAST = datetime(1969, 1, 1), datetime(2120, 1, 1)  # noqa: DTZ001 - wall times
"""Changes of the clocks outside of these are not worked out."""
MOST_CHANGES = 5_000
"""Of one zone. Real ones have two a year."""
_APART = timedelta(days=2)


class ZoneFault(Exception):
    """What is wrong with a VTIMEZONE, and in which line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class OwnZone:
    """The offsets of a VTIMEZONE. Instants are naive in UTC in here."""

    def __init__(self, changes: list[tuple[datetime, timedelta]], before: timedelta) -> None:
        """`changes` in order: from when on which offset holds; `before` holds before the first."""
        self._instants = [at for at, _ in changes]
        self._offsets = [before, *(offset for _, offset in changes)]

    def offset_at(self, instant: datetime) -> timedelta:
        return self._offsets[bisect_right(self._instants, instant)]

    def to_instant(self, wall: datetime) -> datetime:
        """Aware, in UTC: the first of two, and with the offset before a gap for what falls into one."""
        near = slice(bisect_right(self._instants, wall - _APART), bisect_right(self._instants, wall + _APART) + 1)
        candidates = sorted(wall - offset for offset in set(self._offsets[near]))
        fitting = [at for at in candidates if at + self.offset_at(at) == wall]
        found = fitting[0] if fitting else wall - self.offset_at(candidates[0])
        return found.replace(tzinfo=UTC)

    def to_wall(self, instant: datetime) -> datetime:
        naive = instant.astimezone(UTC).replace(tzinfo=None)
        return naive + self.offset_at(naive)


def read_zone(component: Component) -> OwnZone:
    """The zone that a VTIMEZONE defines. Raises `ZoneFault`."""
    if component.faults:
        raise ZoneFault(component.faults[0].line, component.faults[0].reason)
    changes: dict[datetime, timedelta] = {}
    earliest: tuple[datetime, timedelta] | None = None
    for part in component.parts:
        came_from = _offset(part, "TZOFFSETFROM")
        goes_to = _offset(part, "TZOFFSETTO")
        for wall in _onsets(part, came_from):
            at = wall - came_from
            changes[at] = goes_to
            if earliest is None or at < earliest[0]:
                earliest = at, came_from
        if len(changes) > MOST_CHANGES:
            raise ZoneFault(part.line, f"VTIMEZONE has more than {MOST_CHANGES:,} changes of the clocks")
    if earliest is None:
        raise ZoneFault(component.line, "VTIMEZONE has neither STANDARD nor DAYLIGHT")
    return OwnZone(sorted(changes.items()), earliest[1])


def _onsets(part: Component, came_from: timedelta) -> list[datetime]:
    start = _required(part, "DTSTART")
    first = _wall(start, start.value)
    found = {first}
    for each in part.all("RDATE"):
        found |= {_wall(each, text.partition("/")[0]) for text in each.value.split(",")}
    given = part.first("RRULE")
    if given is not None and given.value:
        try:
            rule = parse_rule(given.value)
        except InvalidInput as error:
            raise ZoneFault(given.line, f"RRULE: {error.reason}") from None
        if rule.frequency not in {"YEARLY", "MONTHLY"}:
            raise ZoneFault(given.line, f"RRULE: a zone's clocks do not change by FREQ={rule.frequency}")
        if rule.until is not None and rule.until.tzinfo is not None:
            rule = replace(rule, until=rule.until.replace(tzinfo=None) + came_from)
        turns = takewhile(lambda wall: wall < LAST, wall_times(rule, first, "UTC", FIRST))
        found |= set(islice(turns, MOST_CHANGES + 1))
    return sorted(found)


def _offset(part: Component, name: str) -> timedelta:
    given = _required(part, name)
    try:
        return read_offset(given.value)
    except ValueError as error:
        raise ZoneFault(given.line, f"{name}: {error}") from None


def _required(part: Component, name: str) -> Property:
    found = part.first(name)
    if found is None:
        raise ZoneFault(part.line, f"{part.name} of a VTIMEZONE has no {name}")
    return found


def _wall(given: Property, text: str) -> datetime:
    try:
        found = read_time(text)
    except ValueError as error:
        raise ZoneFault(given.line, f"{given.name}: {error}") from None
    if not isinstance(found, datetime):
        found = _midnight(found)
    return found.replace(tzinfo=None)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall time

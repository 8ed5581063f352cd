"""Quiet hours: a daily window of wall time in a zone, as instants.

Each evening's window begins and ends at the instants that `to_instant` gives its two wall times (DESIGN section 7): one
that a spring change skips is read with the offset in force before the gap, one that an autumn change repeats means the
first of the two. What is between these instants is quiet, whatever a clock on the wall shows meanwhile. A window that such
a change leaves without any length is skipped that night.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.errors import InvalidInput

_SHAPE = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_RANGE = re.compile(r"(\d\d:\d\d)\s*-\s*(\d\d:\d\d)", re.ASCII)
_ONE_DAY = timedelta(days=1)
_DAYS_AROUND = 3
"""A zone may skip a day, so that a window lies two nominal days from the day it is read on; one more to be sure."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one wall time to another, to the minute; over midnight where `to` is the earlier one. Never equal."""

    start: time
    end: time

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"


@dataclass(frozen=True, slots=True)
class Quiet:
    """It is quiet now, and stops being so at `until`. UTC."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Clear:
    """It is not quiet now, and surely not before `until`. UTC."""

    until: datetime


def quiet_hours(start: time | str, end: time | str) -> QuietHours:
    """Quiet hours from two wall times, as `time` or as `HH:MM`. Raises `InvalidInput` for field `quiet_hours`."""
    hours = QuietHours(_wall_time(start), _wall_time(end))
    if hours.start == hours.end:
        raise InvalidInput(
            "quiet_hours", f"begin and end at {hours.start:%H:%M}; to send nothing at all, suppress the user"
        )
    return hours


def parse_quiet_hours(text: str) -> QuietHours:
    """Quiet hours written as `22:00-07:00`. Raises `InvalidInput` for field `quiet_hours`."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput("quiet_hours", f"{text[:40]!r} is no range of wall times; write 22:00-07:00")
    return quiet_hours(match[1], match[2])


def standing_at(now: datetime, zone: str, hours: QuietHours) -> Quiet | Clear:
    """Whether it is quiet in `zone` at the aware instant `now`, and until when. Raises `InvalidInput` for field `zone`."""
    until = now = now.astimezone(UTC)
    windows = sorted(_windows(now, zone, hours))
    for start, end in windows:
        # Where a zone skips a whole day, two days' windows are one, or begin where another ends.
        if start <= until < end:
            until = end
    if until > now:
        return Quiet(until)
    return Clear(min((start for start, _ in windows if start > now), default=now + _ONE_DAY))


def _windows(now: datetime, zone: str, hours: QuietHours) -> Iterator[tuple[datetime, datetime]]:
    """The windows that begin around the day of `now`, as far as they have any length."""
    today = now.astimezone(load_zone(zone)).date()
    over_midnight = _ONE_DAY if hours.end < hours.start else timedelta()
    for offset in range(-_DAYS_AROUND, _DAYS_AROUND + 1):
        day = today + timedelta(days=offset)
        start, end = _instant(day, hours.start, zone), _instant(day + over_midnight, hours.end, zone)
        if start < end:
            yield start, end


def _instant(day: date, wall: time, zone: str) -> datetime:
    return to_instant(datetime.combine(day, wall), zone)


def _wall_time(given: time | str) -> time:
    if isinstance(given, str) and _SHAPE.fullmatch(given):
        return time.fromisoformat(given)
    if isinstance(given, time) and given.tzinfo is None and (given.second, given.microsecond) == (0, 0):
        return given.replace(fold=0)
    shown = given if isinstance(given, time) else str(given)[:20]
    raise InvalidInput("quiet_hours", f"'{shown}' is no wall time to the minute; write 22:00")

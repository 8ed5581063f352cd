"""Single values: dates, times, durations, lists of them (RFC 5545 section 3.3). All raise `ValueError` with what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z)?)?", re.ASCII)
_DURATION = re.compile(
    r"([+-]?)P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?", re.ASCII
)
_OFFSET = re.compile(r"([+-])(\d\d)(\d\d)(\d\d)?", re.ASCII)
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Span:
    """A duration: days of the calendar, then seconds that pass. Both have the same sign."""

    days: int = 0
    seconds: int = 0

    def __mul__(self, times: int) -> Span:
        return Span(self.days * times, self.seconds * times)

    def __add__(self, other: Span) -> Span:
        return Span(self.days + other.days, self.seconds + other.seconds)

    @property
    def length(self) -> timedelta:
        """Where no day is longer or shorter than others."""
        return timedelta(days=self.days, seconds=self.seconds)


NO_TIME = Span()


def read_time(text: str) -> date | datetime:
    """A `date`, a naive datetime, or with `Z` one in UTC. A leap second is the second before it."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)} is no date or time; write 20260501, 20260501T093000 or 20260501T073000Z")
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
        if match[4] is None:
            return day
        second = min(int(match[6]), 59) if match[6] == "60" else int(match[6])
        found = datetime(day.year, day.month, day.day, int(match[4]), int(match[5]), second)  # noqa: DTZ001 - a wall time
    except ValueError as error:
        raise ValueError(f"{shown(text)} is no date or time: {error}") from None
    return found.replace(tzinfo=UTC) if match[7] else found


def read_duration(text: str) -> Span:
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{shown(text)} is no duration; write -PT15M, P1D or P1DT2H")
    weeks, days, hours, minutes, seconds = (int(match[place] or 0) for place in range(2, 7))
    found = Span(weeks * 7 + days, hours * 3600 + minutes * 60 + seconds)
    return found * -1 if match[1] == "-" else found


def read_offset(text: str) -> timedelta:
    """A UTC offset, `+0130` or `-050000`."""
    match = _OFFSET.fullmatch(text)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise ValueError(f"{shown(text)} is no offset; write +0100")
    found = timedelta(hours=int(match[2]), minutes=int(match[3]), seconds=int(match[4] or 0))
    return -found if match[1] == "-" else found


def shown(text: str) -> str:
    """What is quoted of a value in an error."""
    return ascii(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!a}..."

"""Recurrence rules as text: RRULE of RFC 5545 section 3.3.10, read strictly, each fault named with its part.

`UNTIL` may be a date (that whole day still counts), a local time, or a UTC time; COUNT and UNTIL exclude each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Literal

from reminders.domain.errors import InvalidInput

Frequency = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]
FREQUENCIES: tuple[Frequency, ...] = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MOST_CHARACTERS = 1000
MOST_INTERVAL = 1_000_000
MOST_COUNT = 100_000
LEAST_SECONDS_APART = 60.0
"""A series fires at most this often; a rule that would fire more often is refused."""


@dataclass(frozen=True, slots=True)
class Weekday:
    """`MO` is 0. `nth` counts within the month or year, from its end if negative; 0 stands for every one."""

    day: int
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it was read. Parts that were not given are empty. `until` is aware, or naive for a local time."""

    text: str
    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[Weekday, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    @property
    def elapsed(self) -> bool:
        """Whether it counts hours or minutes that pass, and not days of a calendar."""
        return self.frequency in {"HOURLY", "MINUTELY"}


def parse_rule(text: str, field: str = "rule") -> Rule:
    """The rule behind `FREQ=...;...`, with or without `RRULE:` before it. Raises `InvalidInput` naming `field`."""
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be text, not {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(field, f"has {len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed")
    given: dict[str, Any] = {}
    for part in text.strip().upper().removeprefix("RRULE:").rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or name not in _PARTS:
            raise InvalidInput(field, f"{part[:40]!r} is no part of a rule; write FREQ=WEEKLY;BYDAY=MO,TH")
        key, read = _PARTS[name]
        if key in given:
            raise InvalidInput(field, f"{name} stands twice")
        try:
            given[key] = read(value)
        except ValueError as error:
            raise InvalidInput(field, f"{name}: {error}") from None
    if "frequency" not in given:
        raise InvalidInput(field, "has no FREQ; write FREQ=DAILY, FREQ=WEEKLY, FREQ=MONTHLY or FREQ=YEARLY")
    rule = Rule(text=text.strip(), **given)
    _check_together(rule, field)
    return rule


def _check_together(rule: Rule, field: str) -> None:
    nth = any(each.nth for each in rule.weekdays)
    fine = rule.elapsed
    refused = [
        (rule.count is not None and rule.until is not None, "COUNT and UNTIL exclude each other"),
        (bool(rule.week_numbers) and rule.frequency != "YEARLY", "BYWEEKNO goes with FREQ=YEARLY only"),
        (bool(rule.year_days) and rule.frequency in {"DAILY", "WEEKLY", "MONTHLY"}, f"BYYEARDAY does not go with FREQ={rule.frequency}"),
        (bool(rule.month_days) and rule.frequency == "WEEKLY", "BYMONTHDAY does not go with FREQ=WEEKLY"),
        (nth and rule.frequency not in {"MONTHLY", "YEARLY"}, f"BYDAY takes no number with FREQ={rule.frequency}"),
        (nth and bool(rule.week_numbers), "BYDAY takes no number beside BYWEEKNO"),
        (bool(rule.positions) and not _sets(rule), "BYSETPOS needs another BY part to choose from"),
        (fine and bool(rule.positions), f"BYSETPOS does not go with FREQ={rule.frequency} here"),
        (fine and bool(rule.year_days), f"BYYEARDAY does not go with FREQ={rule.frequency} here"),
        (_no_such_days(rule), "never fires: no month it names has such a day"),
        (len(rule.seconds) > 1, "fires more often than once a minute; give one second"),
    ]  # fmt: skip
    for wrong, what in refused:
        if wrong:
            raise InvalidInput(field, what)


def _sets(rule: Rule) -> bool:
    parts = (rule.months, rule.week_numbers, rule.year_days, rule.month_days, rule.weekdays, rule.hours, rule.minutes)
    return any(parts)


def _no_such_days(rule: Rule) -> bool:
    longest = max((_LONGEST[month - 1] for month in rule.months), default=31)
    return bool(rule.month_days) and all(abs(day) > longest for day in rule.month_days)


def _frequency(text: str) -> str:
    if text == "SECONDLY":
        raise ValueError("SECONDLY fires more often than once a minute")
    if text not in FREQUENCIES:
        raise ValueError(f"{text[:20]!r} is none of {', '.join(FREQUENCIES)}")
    return text


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,7}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"{text[:20]!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def _numbers(low: int, high: int, *, from_end: bool = False) -> Callable[[str], tuple[int, ...]]:
    one = _number(-high if from_end else low, high)

    def read(text: str) -> tuple[int, ...]:
        found = tuple(sorted({one(each) for each in text.split(",")}))
        if from_end and 0 in found:
            raise ValueError("0 is no position; count from 1, or from the end with -1")
        return found

    return read


def _weekday(text: str) -> int:
    if text not in WEEKDAYS:
        raise ValueError(f"{text[:20]!r} is none of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(text)


def _weekdays(text: str) -> tuple[Weekday, ...]:
    found = set()
    for each in text.split(","):
        match = re.fullmatch(r"([+-]?\d{1,2})?([A-Z]{2})", each, re.ASCII)
        if match is None:
            raise ValueError(f"{each[:20]!r} is no weekday; write MO, or 2MO, or -1FR")
        nth = int(match[1] or 0)
        if match[1] and not 1 <= abs(nth) <= 53:
            raise ValueError(f"{each!r}: the number goes from 1 to 53, or from -53 to -1")
        found.add(Weekday(_weekday(match[2]), nth))
    return tuple(sorted(found, key=lambda weekday: (weekday.nth, weekday.day)))


def _until(text: str) -> datetime:
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z)?)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text[:20]!r} is no time; write 20261231, 20261231T235959 (local) or 20261231T225959Z")
    year, month, day = (int(match[n]) for n in (1, 2, 3))
    if match[4] is None:
        return datetime.combine(date(year, month, day), time.max)
    found = datetime(year, month, day, int(match[4]), int(match[5]), int(match[6]))  # noqa: DTZ001 - a local time
    return found.replace(tzinfo=UTC) if match[7] else found


_PARTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "FREQ": ("frequency", _frequency),
    "INTERVAL": ("interval", _number(1, MOST_INTERVAL)),
    "COUNT": ("count", _number(1, MOST_COUNT)),
    "UNTIL": ("until", _until),
    "WKST": ("week_start", _weekday),
    "BYMONTH": ("months", _numbers(1, 12)),
    "BYWEEKNO": ("week_numbers", _numbers(1, 53, from_end=True)),
    "BYYEARDAY": ("year_days", _numbers(1, 366, from_end=True)),
    "BYMONTHDAY": ("month_days", _numbers(1, 31, from_end=True)),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _numbers(0, 23)),
    "BYMINUTE": ("minutes", _numbers(0, 59)),
    "BYSECOND": ("seconds", _numbers(0, 59)),
    "BYSETPOS": ("positions", _numbers(1, 366, from_end=True)),
}

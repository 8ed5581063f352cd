"""Rules that count days of the calendar, expanded by python-dateutil as wall times.

dateutil counts from the start of a series. So that the next turn of a series of many years costs no more than that of a
new one, the count begins a little before the time that is asked for, in step with the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal

from dateutil import rrule

from reminders.calendar.rules import Rule
from reminders.calendar.zones import to_instant

MOST_YEARS_AHEAD = 50
"""29 February falls on one weekday every 28 years, or 40 where a century year is none."""
LAST = datetime(9998, 12, 31, 23, 59, 59)  # noqa: DTZ001 - a wall time
_FREQUENCIES: dict[str, Literal[0, 1, 2, 3]] = {
    "YEARLY": rrule.YEARLY,
    "MONTHLY": rrule.MONTHLY,
    "WEEKLY": rrule.WEEKLY,
    "DAILY": rrule.DAILY,
}
_WEEKDAYS = (rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA, rrule.SU)


def wall_times(rule: Rule, start: datetime, zone: str, since: datetime | None) -> Iterator[datetime]:
    """The wall times of `rule` from `start` on, ascending; without a COUNT, those before `since` may be left out."""
    found = _expanded(rule, start, start if since is None or rule.count is not None else since)
    until = rule.until
    if until is not None and until.tzinfo is None:
        found = takewhile(lambda wall: wall <= until, found)
    elif until is not None:
        found = _until_instant(found, zone, until)
    return found if rule.count is None else islice(found, rule.count)


def _expanded(rule: Rule, start: datetime, since: datetime) -> Iterator[datetime]:
    """From about `since` on, a little beyond UNTIL, as long as the next one is not too far from the last."""
    end = LAST if rule.until is None else _beyond(rule.until)
    last: datetime | None = None
    while True:
        begin = _in_step(rule, start, last or since)
        limit = min(end, _limit(max(start, last or since)))
        newest = None
        for wall in _by_dateutil(rule, start, begin, limit):
            if wall >= start and (last is None or wall > last):
                newest = wall
                yield wall
        if newest is None or limit == end:
            return
        last = newest


def _by_dateutil(rule: Rule, start: datetime, begin: datetime, limit: datetime) -> Iterator[datetime]:
    """From `begin` to `limit`.

    dateutil looks for a rule's next turn as far as its last year, 9999. It is let begin some cycles of 400 years later,
    after which the Gregorian calendar repeats with all its weekdays, so that it has few years to look through.
    """
    cycles = 400 * max(0, (LAST.year - MOST_YEARS_AHEAD - begin.year) // 400)
    expanded = rrule.rrule(
        _FREQUENCIES[rule.frequency],
        dtstart=begin.replace(year=begin.year + cycles),
        until=limit.replace(year=min(limit.year + cycles, LAST.year)),
        **_parts(rule, start),
    )
    return (wall.replace(year=wall.year - cycles) for wall in expanded)


def _beyond(until: datetime) -> datetime:
    local = until.replace(tzinfo=None)
    return local + timedelta(days=2) if local < LAST - timedelta(days=2) else LAST


def _until_instant(found: Iterator[datetime], zone: str, until: datetime) -> Iterator[datetime]:
    """Where the clocks change, a later wall time can be an earlier instant: those a little beyond are looked at too."""
    return (wall for wall in found if to_instant(wall, zone) <= until)


def _limit(begin: datetime) -> datetime:
    year = begin.year + MOST_YEARS_AHEAD
    return LAST if year > LAST.year else begin.replace(year=year, day=min(begin.day, 28))


def _in_step(rule: Rule, start: datetime, since: datetime) -> datetime:
    """A beginning at or after `start`, before `since`, a whole number of intervals after the start."""
    if since <= start:
        return start
    match rule.frequency:
        case "DAILY" | "WEEKLY":
            step = timedelta(days=rule.interval * (7 if rule.frequency == "WEEKLY" else 1))
            turns = (since - start) // step - 1
            return start + turns * step if turns > 0 else start
        case "MONTHLY":
            months = (since.year - start.year) * 12 + since.month - start.month
            turns = months // rule.interval - 1
            if turns <= 0:
                return start
            month = start.month - 1 + turns * rule.interval
            return datetime(start.year + month // 12, month % 12 + 1, 1)  # noqa: DTZ001 - a wall time
        case _:
            turns = (since.year - start.year) // rule.interval - 1
            return datetime(start.year + turns * rule.interval, 1, 1) if turns > 0 else start  # noqa: DTZ001


def _parts(rule: Rule, start: datetime) -> dict[str, Any]:
    """What dateutil takes; what it would read from its own beginning is said, since that is not the series' start."""
    months, month_days, weekdays = rule.months, rule.month_days, rule.weekdays
    chosen = bool(rule.week_numbers or rule.year_days or month_days or weekdays)
    if not chosen and rule.frequency in {"YEARLY", "MONTHLY"}:
        month_days = (start.day,)
        if rule.frequency == "YEARLY" and not months:
            months = (start.month,)
    given: dict[str, Any] = {
        "interval": rule.interval,
        "wkst": rule.week_start,
        "bymonth": months,
        "byweekno": rule.week_numbers,
        "byyearday": rule.year_days,
        "bymonthday": month_days,
        "byweekday": tuple(_WEEKDAYS[each.day](each.nth) if each.nth else _WEEKDAYS[each.day] for each in weekdays),
        "bysetpos": rule.positions,
        "byhour": rule.hours or (start.hour,),
        "byminute": rule.minutes or (start.minute,),
        "bysecond": rule.seconds or (start.second,),
    }
    if not chosen and rule.frequency == "WEEKLY":
        given["byweekday"] = start.weekday()
    return {name: value for name, value in given.items() if value != ()}

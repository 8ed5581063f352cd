"""Rules that count the hours or minutes that pass. Their BY parts look at what the zone's clocks show.

An HOURLY rule with BYMINUTE looks through an hour at each turn of its count: the first is the clocks' hour of the start, and
INTERVAL hours pass from one to the next. It fires at those instants of the hour at which clocks show one of the minutes. So
with an INTERVAL of 1 it fires whenever clocks show such a minute, also where they change by half an hour: a minute that they
skip gives no turn, one that they show twice gives two. BYSECOND does the same with the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from reminders.calendar.civil_rule import LAST, MOST_YEARS_AHEAD
from reminders.calendar.rules import Rule
from reminders.calendar.zones import load_zone, to_instant

MOST_STEPS = 500_000
"""Turns that are looked at without one that fires, days that are left out not counted; then the rule is at its end."""
_UNITS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}


def elapsed_instants(
    rule: Rule, start: datetime, zone: str, since: datetime | None, through: datetime | None = None
) -> Iterator[datetime]:
    """The instants (UTC) of `rule` from the wall time `start` on, ascending, and if `through` is given (aware), no later ones.

    Without a COUNT, those before `since`, naive in UTC, may be left out.
    """
    first = to_instant(start, zone)
    number = 0
    step = _UNITS[rule.frequency] * rule.interval
    if since is not None and rule.count is None:
        number = max(0, (since.replace(tzinfo=UTC) - first) // step - 1)
    ends = [] if through is None else [through]
    if rule.until is not None:
        ends.append(rule.until if rule.until.tzinfo is not None else _last_at(rule.until, zone))
    end = min(ends, default=None)
    turns = _turns(rule, first, number, zone, end)
    found = (at for at in turns if at >= first and (end is None or at <= end))
    return found if rule.count is None else islice(found, rule.count)


def _last_at(wall: datetime, zone: str) -> datetime:
    """The last instant at which clocks in the zone show `wall`."""
    return wall.replace(tzinfo=load_zone(zone), fold=1).astimezone(UTC)


def _turns(rule: Rule, first: datetime, number: int, zone: str, end: datetime | None) -> Iterator[datetime]:
    """Ascending, some before `first` and after `end` among them. The spans looked through do not overlap."""
    step = _UNITS[rule.frequency] * rule.interval
    place = load_zone(zone)
    shown = _looked_for(rule, first.astimezone(place))
    begin = first if shown is None else first - shown.back
    last = timedelta() if shown is None else shown.span - timedelta(seconds=1)
    limit = max(first, begin + number * step).year + MOST_YEARS_AHEAD
    looked = 0
    while looked < MOST_STEPS:
        at = begin + number * step
        local, local_end = at.astimezone(place), (at + last).astimezone(place)
        if local.year > min(limit, LAST.year) or (end is not None and at > end):
            return
        if not _day_matches(rule, local) and not _day_matches(rule, local_end):
            number = max(number + 1, -((begin + last - _next_day(local_end, zone)) // step))
            continue
        looked += 1
        number += 1
        for found in (at,) if shown is None else shown.within(at, place):
            now = found.astimezone(place)
            if _day_matches(rule, now) and (not rule.hours or now.hour in rule.hours):
                looked, limit = 0, now.year + MOST_YEARS_AHEAD
                yield found


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the zone's clocks are to show at a turn: a second, and one of `minutes` where the span is an hour or they are named.

    Each turn of the count looks through a span of an hour or a minute, which begins `back` before the count's instant.
    """

    span: timedelta
    back: timedelta
    minutes: tuple[int, ...]
    second: int

    def within(self, begin: datetime, place: ZoneInfo) -> list[datetime]:
        """The instants of the span from `begin` on at which the clocks show it."""
        found = set()
        end = begin + self.span
        # Where clocks change within the span, each of both offsets holds for a part of it.
        for offset in {each.astimezone(place).utcoffset() for each in (begin, end - timedelta(seconds=1))}:
            assert offset is not None
            wall = begin + offset
            since_hour = wall.minute * 60 + wall.second
            for minute in self.minutes or (wall.minute, (wall.minute + 1) % 60):
                at = begin + timedelta(seconds=(minute * 60 + self.second - since_hour) % 3600)
                if at < end and at.astimezone(place).utcoffset() == offset:
                    found.add(at)
        return sorted(found)


def _looked_for(rule: Rule, start: datetime) -> _Shown | None:
    """None if every turn of the count is one of the rule, whatever minute and second clocks show."""
    second = rule.seconds[0] if rule.seconds else start.second
    if rule.minutes and rule.frequency == "HOURLY":
        return _Shown(timedelta(hours=1), timedelta(minutes=start.minute, seconds=start.second), rule.minutes, second)
    if rule.minutes or rule.seconds:
        return _Shown(timedelta(minutes=1), timedelta(seconds=start.second), rule.minutes, second)
    return None


def _day_matches(rule: Rule, local: datetime) -> bool:
    if rule.months and local.month not in rule.months:
        return False
    if rule.weekdays and local.weekday() not in {each.day for each in rule.weekdays}:
        return False
    return not rule.month_days or any(_is_month_day(each, local) for each in rule.month_days)


def _is_month_day(day: int, local: datetime) -> bool:
    if day > 0:
        return local.day == day
    following = (local.replace(day=28) + timedelta(days=4)).replace(day=1)
    return local.day == (following - timedelta(days=-day)).day


def _next_day(local: datetime, zone: str) -> datetime:
    """No later than the next instant, after `local`, of another day."""
    midnight = to_instant(local.replace(tzinfo=None, fold=0, hour=0, minute=0, second=0) + timedelta(days=1), zone)
    if midnight.astimezone(local.tzinfo).utcoffset() == local.utcoffset():
        return midnight
    # Clocks that are put back soon after midnight return to the day before.
    return local.astimezone(UTC)

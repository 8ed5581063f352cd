"""Rules that count the hours or minutes that pass. Their BY parts look at the local time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from reminders.calendar.civil_rule import LAST, MOST_YEARS_AHEAD
from reminders.calendar.rules import Rule
from reminders.calendar.zones import load_zone, to_instant

MOST_STEPS = 500_000
"""Turns that are looked at without one that fires, days that are left out not counted; then the rule is at its end."""
_UNITS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}


def elapsed_instants(rule: Rule, start: datetime, zone: str, since: datetime | None) -> Iterator[datetime]:
    """The instants (UTC) of `rule` from the wall time `start` on, ascending.

    Without a COUNT, those before `since`, naive in UTC, may be left out.
    """
    first = to_instant(start, zone)
    number = 0
    step = _UNITS[rule.frequency] * rule.interval
    if since is not None and rule.count is None:
        number = max(0, (since.replace(tzinfo=UTC) - first) // step - 1)
    found: Iterator[datetime] = (at for at in _turns(rule, first, step, number, zone) if at >= first)
    until = rule.until
    if until is not None:
        end = until if until.tzinfo is not None else _last_at(until, zone)
        found = _while_before(found, end)
    return found if rule.count is None else islice(found, rule.count)


def _last_at(wall: datetime, zone: str) -> datetime:
    """The last instant at which clocks in the zone show `wall`."""
    return wall.replace(tzinfo=load_zone(zone), fold=1).astimezone(UTC)


def _while_before(found: Iterator[datetime], end: datetime) -> Iterator[datetime]:
    for at in found:
        if at > end:
            return
        yield at


def _turns(rule: Rule, first: datetime, step: timedelta, number: int, zone: str) -> Iterator[datetime]:
    place = load_zone(zone)
    begun = max(first, first + number * step)
    limit = begun.year + MOST_YEARS_AHEAD
    looked = 0
    while looked < MOST_STEPS:
        at = first + number * step
        local = at.astimezone(place)
        if local.year > min(limit, LAST.year):
            return
        if not _day_matches(rule, local):
            number = max(number + 1, -((first - _next_day(rule, local, zone)) // step))
            continue
        looked += 1
        number += 1
        if rule.hours and local.hour not in rule.hours:
            continue
        for minute in _minutes(rule, local):
            looked, limit = 0, local.year + MOST_YEARS_AHEAD
            second = rule.seconds[0] if rule.seconds else local.second
            yield at + timedelta(minutes=minute - local.minute, seconds=second - local.second)


def _minutes(rule: Rule, local: datetime) -> tuple[int, ...]:
    if rule.frequency == "HOURLY":
        return rule.minutes or (local.minute,)
    return (local.minute,) if not rule.minutes or local.minute in rule.minutes else ()


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


def _next_day(rule: Rule, local: datetime, zone: str) -> datetime:
    midnight = to_instant(local.replace(tzinfo=None, fold=0, hour=0, minute=0, second=0) + timedelta(days=1), zone)
    # The turn of an HOURLY rule stands for its whole hour, whichever minute it falls on.
    return midnight - timedelta(hours=1) if rule.frequency == "HOURLY" else midnight

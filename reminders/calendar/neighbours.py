"""Which turns of a rule come within less than a minute of an instant, without looking at all that lie before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from reminders.calendar.civil_rule import wall_times
from reminders.calendar.elapsed_rule import elapsed_instants
from reminders.calendar.rules import LEAST_SECONDS_APART, Rule
from reminders.calendar.zones import load_zone, to_instant

_LEAST = timedelta(seconds=LEAST_SECONDS_APART)
_SECOND = timedelta(seconds=1)
_LONGEST_GAP = timedelta(days=1)
"""By which clocks have ever been put forward."""


def walls_near(rule: Rule | None, start: datetime, zone: str, instant: datetime) -> Iterator[datetime]:
    """The wall times of those turns, for an aware `instant` of whole seconds; a turn at the instant itself is none of them."""
    if rule is None:
        yield from [start] if _is_near(start, zone, instant) else []
        return
    yield from (_elapsed if rule.elapsed else _civil)(rule, start, zone, instant)


def _elapsed(rule: Rule, start: datetime, zone: str, instant: datetime) -> Iterator[datetime]:
    since = (instant - _LEAST).astimezone(UTC).replace(tzinfo=None)
    # What a COUNT leaves of it is asked only of what is near: it is counted from the start.
    for at in elapsed_instants(replace(rule, count=None), start, zone, since, through=instant + _LEAST - _SECOND):
        near = timedelta() < abs(at - instant) < _LEAST
        if near and (rule.count is None or at in elapsed_instants(rule, start, zone, None, through=at)):
            yield at.astimezone(load_zone(zone)).replace(tzinfo=None, fold=0)


def _civil(rule: Rule, start: datetime, zone: str, instant: datetime) -> Iterator[datetime]:
    """A rule names one second, so there are two wall times at most for each offset that may hold."""
    place = load_zone(zone)
    offsets = {(instant + apart).astimezone(place).utcoffset() for apart in (-_LONGEST_GAP, -_LEAST, _LEAST)}
    second = rule.seconds[0] if rule.seconds else start.second
    walls = set()
    for offset in offsets:
        assert offset is not None
        shown = instant.astimezone(UTC).replace(tzinfo=None) + offset
        minute = shown.replace(second=second)
        walls |= {minute - _LEAST, minute, minute + _LEAST}
    for wall in sorted(walls):
        near = _is_near(wall, zone, instant) and _gives(replace(rule, count=None), start, zone, wall)
        if near and (rule.count is None or wall in wall_times(rule, start, zone, None)):
            yield wall


def _is_near(wall: datetime, zone: str, instant: datetime) -> bool:
    apart = abs(to_instant(wall, zone) - instant)
    return timedelta() < apart < _LEAST


def _gives(rule: Rule, start: datetime, zone: str, wall: datetime) -> bool:
    if wall.hour not in (rule.hours or (start.hour,)) or wall.minute not in (rule.minutes or (start.minute,)):
        return False
    # Whether it gives that day, does not depend on its other times of day, unless it chooses by their order.
    if not rule.positions:
        rule = replace(rule, hours=(wall.hour,), minutes=(wall.minute,))
    return wall in islice((each for each in wall_times(rule, start, zone, wall) if each >= wall), 1)

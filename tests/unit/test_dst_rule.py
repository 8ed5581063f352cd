"""The rule for wall times that do not exist or come twice, held against every change of every zone for thirty years.

What is expected is worked out the other way round, from instants to what clocks show then.
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from reminders.calendar.recurrence import Recurrence, take
from reminders.calendar.rules import parse_rule
from reminders.calendar.zones import known_zones, load_zone, to_instant

FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2056, 1, 1, tzinfo=UTC)
SAMPLE = (
    "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/St_Johns", "America/Santiago",
    "Australia/Lord_Howe", "Pacific/Chatham", "Africa/Casablanca", "Asia/Gaza", "Antarctica/Troll", "Asia/Kathmandu", "UTC",
)  # fmt: skip


def _offset(zone, instant):
    return instant.astimezone(zone).utcoffset()


def changes(zone):
    """Every change between FIRST and LAST: its instant, and the offsets before and after. To the second."""
    at = FIRST
    while at < LAST:
        later = at + timedelta(days=1)
        if _offset(zone, at) != _offset(zone, later):
            low, high = at, later
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                middle = middle.replace(microsecond=0)
                low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
            yield high, _offset(zone, at), _offset(zone, later)
        at = later


def expected(wall, change, before, after):
    """The instant of a wall time near a change: the first at which clocks show it, or as if they had not changed."""
    showing = [
        instant
        for instant in ((wall - before).replace(tzinfo=UTC), (wall - after).replace(tzinfo=UTC))
        if (before if instant < change else after) == wall - instant.replace(tzinfo=None)
    ]
    return min(showing) if showing else (wall - before).replace(tzinfo=UTC)


def check(name):
    zone = load_zone(name)
    seen = 0
    for change, before, after in changes(zone):
        seen += 1
        shown_before, shown_after = change.replace(tzinfo=None) + before, change.replace(tzinfo=None) + after
        low, high = min(shown_before, shown_after), max(shown_before, shown_after)
        step = (high - low) / 6
        for wall in (low - timedelta(hours=3), low - timedelta(seconds=1), *(low + n * step for n in range(7)), high + timedelta(seconds=1), high + timedelta(hours=3)):  # fmt: skip
            found = to_instant(wall, name)
            assert found == expected(wall, change, before, after), (name, wall)
            gap = after > before and low <= wall < high
            shown = found.astimezone(zone).replace(tzinfo=None, fold=0)
            assert shown == (wall + (after - before) if gap else wall), (name, wall)
        _daily_through(name, change, low + (high - low) / 2)
    return seen


def _daily_through(name, change, wall):
    """A daily series through the change fires once for each of its days, in order."""
    start = (wall - timedelta(days=2)).replace(microsecond=0)
    found = take(Recurrence(start, name, parse_rule("FREQ=DAILY")).since(change - timedelta(days=3), inclusive=True), 5)
    assert [each.wall for each in found] == [start + timedelta(days=day) for day in range(5)]
    assert all(
        timedelta(hours=22) <= later.at - earlier.at <= timedelta(hours=26) for earlier, later in pairwise(found)
    )


@pytest.mark.parametrize("name", SAMPLE)
def test_the_rule_holds_in_a_sample_of_zones(name):
    assert (check(name) > 0) == (name not in {"Asia/Kathmandu", "UTC"})


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_rule_holds_in_every_zone():
    assert sum(check(name) for name in sorted(known_zones())) > 5000

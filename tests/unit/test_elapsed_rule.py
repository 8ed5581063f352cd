"""HOURLY and MINUTELY rules where clocks change, by less than an hour too, held against a look at every moment."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from reminders.calendar.recurrence import Recurrence, take
from reminders.calendar.rules import parse_rule
from reminders.calendar.zones import known_zones, load_zone

SAMPLE = {
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
    "Asia/Pyongyang": ("2015-08-14", "2018-05-04"),
    "America/Caracas": ("2007-12-09", "2016-05-01"),
    "Asia/Kolkata": ("1945-10-14",),
    "Asia/Kathmandu": ("1985-12-31",),
    "Africa/Monrovia": ("1972-01-07",),
    "America/St_Johns": ("2005-10-30", "1988-04-03"),
    "Antarctica/Troll": ("2026-10-25",),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "Pacific/Apia": ("2011-12-30",),
    "America/Santiago": ("2026-04-05",),
}
"""Days of changes (UTC), some by half or a quarter of an hour, one by a few seconds, two back into the day before."""
WEEK = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
AROUND = timedelta(hours=20)


def shown_by_looking(parts, start, zone, begin, end):
    """Every instant from `begin` until `end` that the rule means, found by looking at each second, or each minute."""
    first = start.replace(tzinfo=zone).astimezone(UTC)
    shown = first.astimezone(zone)
    exact = any(each.astimezone(zone).utcoffset().total_seconds() % 60 for each in (first, begin, end))
    beat = timedelta(seconds=1) if exact else timedelta(minutes=1)
    unit = timedelta(hours=1) if parts["FREQ"] == "HOURLY" else timedelta(minutes=1)
    back = timedelta(minutes=shown.minute) if parts["FREQ"] == "HOURLY" and "BYMINUTE" in parts else timedelta()
    looks_at_clocks = "BYMINUTE" in parts
    at = begin
    while at < end:
        local = at.astimezone(zone)
        number, within = divmod(at - (first - back), unit)
        fits = at >= first and number % parts.get("INTERVAL", 1) == 0
        if looks_at_clocks:
            fits = fits and local.minute in parts["BYMINUTE"] and local.second == start.second
        else:
            fits = fits and not within
        fits = fits and local.hour in parts.get("BYHOUR", range(24))
        if fits and WEEK[local.weekday()] in parts.get("BYDAY", WEEK):
            yield at
        at += beat


def as_text(parts):
    values = {name: ",".join(map(str, each)) if isinstance(each, list) else each for name, each in parts.items()}
    return ";".join(f"{name}={value}" for name, value in values.items())


def some_rules(chance):
    """Rules that fire once a minute or less, as their parts."""
    for freq in ("HOURLY", "HOURLY", "HOURLY", "MINUTELY", "MINUTELY"):
        parts = {"FREQ": freq}
        if chance.random() < 0.4:
            parts["INTERVAL"] = chance.choice((2, 3, 5, 7))
        if freq == "HOURLY" or chance.random() < 0.7:
            parts["BYMINUTE"] = sorted(chance.sample(range(60), chance.choice((1, 1, 2, 3))))
        if chance.random() < 0.3:
            parts["BYHOUR"] = sorted(chance.sample(range(24), 8))
        if chance.random() < 0.3:
            parts["BYDAY"] = chance.sample(WEEK, 3)
        yield parts


def check(name, day, chance):
    zone = load_zone(name)
    for parts in some_rules(chance):
        begin = datetime.fromisoformat(f"{day}T12:00Z") - AROUND
        end = begin + 2 * AROUND
        start = begin.astimezone(zone).replace(tzinfo=None, fold=0, second=0)
        start += timedelta(minutes=chance.choice((0, 0, 30, 50, 400)))
        # A rule that never fires would be searched for years.
        rule = f"{as_text(parts)};UNTIL={end - timedelta(seconds=1):%Y%m%dT%H%M%SZ}"
        recurrence = Recurrence(start, name, parse_rule(rule))
        found = [each.at for each in recurrence.since(begin, inclusive=True)]
        assert found == list(shown_by_looking(parts, start, zone, begin, end)), (name, start, as_text(parts))
        assert all(later > earlier for earlier, later in pairwise(found))


@pytest.mark.parametrize("name", SAMPLE)
def test_hours_and_minutes_agree_with_a_look_at_every_moment(name):
    chance = random.Random(name)
    for day in SAMPLE[name]:
        for _ in range(4):
            check(name, day, chance)


def days_of_uneven_changes(name, first=1970, last=2040):
    """The days on which the zone's clocks change otherwise than by whole hours."""
    zone = load_zone(name)
    day = datetime(first, 1, 1, 12, tzinfo=UTC)
    offset = day.astimezone(zone).utcoffset()
    while day.year < last:
        day += timedelta(days=1)
        after = day.astimezone(zone).utcoffset()
        if (after - offset).total_seconds() % 3600:
            yield (day - timedelta(hours=12)).date().isoformat()
        offset = after


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hours_and_minutes_hold_at_every_change_that_is_no_whole_hour():
    seen = 0
    for name in sorted(known_zones()):
        chance = random.Random(name)
        for day in days_of_uneven_changes(name):
            seen += 1
            check(name, day, chance)
    assert seen > 200


def instants(rule, start, zone, number):
    found = take(Recurrence(datetime.fromisoformat(start), zone, parse_rule(rule)).all(), number)
    return [each.at.strftime("%dT%H:%M") for each in found]


def test_a_minute_that_clocks_skip_gives_no_turn_and_one_shown_twice_gives_two():
    spring = instants("FREQ=HOURLY;BYMINUTE=25", "2026-10-04T00:00", "Australia/Lord_Howe", 4)
    # 00:25 and 01:25 at +10:30, then 03:25 and 04:25 at +11:00: clocks go from 02:00 to 02:30.
    assert spring == ["03T13:55", "03T14:55", "03T16:25", "03T17:25"]
    autumn = instants("FREQ=HOURLY;BYMINUTE=45", "2026-04-05T00:00", "Australia/Lord_Howe", 4)
    # 00:45 and 01:45 at +11:00, then 01:45 and 02:45 at +10:30: clocks go from 02:00 to 01:30.
    assert autumn == ["04T13:45", "04T14:45", "04T15:15", "04T16:15"]


def test_minutes_on_both_sides_of_a_change_come_in_order_and_none_is_left_out():
    both = instants("FREQ=HOURLY;BYMINUTE=6,35", "2026-10-04T01:00", "Australia/Lord_Howe", 5)
    assert both == ["03T14:36", "03T15:05", "03T15:35", "03T16:06", "03T16:35"]
    Recurrence(datetime(2026, 10, 3, 0, 0), "Australia/Lord_Howe", parse_rule("FREQ=HOURLY;BYMINUTE=9,53")).check()


def test_an_interval_counts_hours_that_pass_through_a_change_by_half_an_hour():
    found = instants("FREQ=HOURLY;INTERVAL=2;BYMINUTE=15", "2026-10-03T22:00", "Australia/Lord_Howe", 4)
    # The hours begin at 22:00, 00:00, and, the clocks being half an hour further, at 02:30 and 04:30.
    assert found == ["03T11:45", "03T13:45", "03T16:15", "03T18:15"]

"""Quiet hours as instants: every zone, any year, windows over midnight, and the nights on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reminders.calendar.quiet_hours import Clear, Quiet, QuietHours, parse_quiet_hours, quiet_hours, standing_at
from reminders.calendar.zones import known_zones, load_zone, to_instant
from reminders.domain.errors import InvalidInput

START = datetime(1970, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NIGHT = QuietHours(time(22), time(7))
ZONES = st.sampled_from(sorted(known_zones()))
TIMES = st.integers(0, 24 * 60 - 1).map(lambda minutes: time(*divmod(minutes, 60)))
HOURS = st.tuples(TIMES, TIMES).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: QuietHours(*pair))
INSTANTS = st.integers(5 * 365, 120 * 365).flatmap(
    lambda day: st.integers(0, 86_399).map(lambda s: START + timedelta(days=day, seconds=s))
)
many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much], derandomize=True)


def at(zone: str, wall: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(wall).replace(tzinfo=load_zone(zone), fold=fold).astimezone(UTC)


def steady(now: datetime, zone: str) -> bool:
    """Whether no clock is changed for three days around."""
    rules = load_zone(zone)
    return len({(now + offset * HOUR).astimezone(rules).utcoffset() for offset in range(-72, 73)}) == 1


@many
@given(INSTANTS, ZONES, HOURS)
def test_while_no_clock_is_changed_it_is_quiet_exactly_while_the_wall_clock_is_in_the_window(now, zone, hours):
    assume(steady(now, zone))
    wall = now.astimezone(load_zone(zone)).time()
    start, end = hours.start, hours.end
    inside = start <= wall < end if start < end else wall >= start or wall < end
    standing = standing_at(now, zone, hours)
    assert isinstance(standing, Quiet) == inside
    assert standing.until.astimezone(load_zone(zone)).time() == (end if inside else start)
    assert now < standing.until <= now + DAY


@many
@given(INSTANTS, ZONES, HOURS, st.integers(0, 99))
def test_it_stays_so_until_then_and_then_it_does_not(now, zone, hours, share):
    standing = standing_at(now, zone, hours)
    assert now < standing.until
    between = standing_at(now + share * (standing.until - now) / 100, zone, hours)
    assert type(between) is type(standing)
    if isinstance(standing, Quiet):
        assert between == standing
        assert isinstance(standing_at(standing.until, zone, hours), Clear)
    else:
        assert between.until >= standing.until


@many
@given(ZONES, st.integers(1980, 2080), HOURS)
def test_no_change_of_clocks_in_a_year_makes_it_quiet_for_days_or_wakes_anybody_between_a_windows_two_instants(
    zone, year, hours
):
    """Asked at each change of the zone's offset, an hour before and an hour after it."""
    rules = load_zone(zone)
    days = [datetime(year, 1, 1, tzinfo=UTC) + n * DAY for n in range(366)]
    changes = [b for a, b in pairwise(days) if a.astimezone(rules).utcoffset() != b.astimezone(rules).utcoffset()]
    for change in changes:
        for now in (change - DAY, change - HOUR, change, change + HOUR):
            standing = standing_at(now, zone, hours)
            assert now < standing.until <= now + 3 * DAY
            day = now.astimezone(rules).date()
            begun = [
                window
                for window in (window_of(each, zone, hours) for each in around(day))
                if window[0] <= now < window[1]
            ]
            assert isinstance(standing, Quiet) == bool(begun)
            if begun:
                assert standing.until >= max(end for _, end in begun)


def around(day: date) -> list[date]:
    return [day + timedelta(days=offset) for offset in range(-2, 3)]


def window_of(day: date, zone: str, hours: QuietHours) -> tuple[datetime, datetime]:
    last = day if hours.start < hours.end else day + timedelta(days=1)
    return to_instant(datetime.combine(day, hours.start), zone), to_instant(datetime.combine(last, hours.end), zone)


@pytest.mark.parametrize(
    ("now", "hours", "expected"),
    [
        # The night of 29 March 2026: 02:00 becomes 03:00 in Berlin.
        ("2026-03-28T23:00", NIGHT, Quiet(at("Europe/Berlin", "2026-03-29T07:00"))),
        ("2026-03-29T01:00", quiet_hours("22:00", "02:30"), Quiet(at("Europe/Berlin", "2026-03-29T03:30"))),
        ("2026-03-29T03:29", quiet_hours("22:00", "02:30"), Quiet(at("Europe/Berlin", "2026-03-29T03:30"))),
        ("2026-03-29T03:30", quiet_hours("22:00", "02:30"), Clear(at("Europe/Berlin", "2026-03-29T22:00"))),
        ("2026-03-29T01:59", quiet_hours("02:15", "02:45"), Clear(at("Europe/Berlin", "2026-03-29T03:15"))),
        ("2026-03-29T03:15", quiet_hours("02:15", "02:45"), Quiet(at("Europe/Berlin", "2026-03-29T03:45"))),
        # It begins after it ends, so it is skipped that night.
        ("2026-03-29T01:00", quiet_hours("02:30", "03:10"), Clear(at("Europe/Berlin", "2026-03-30T02:30"))),
        # The night of 25 October 2026: 03:00 becomes 02:00 again. The first 02:30 counts.
        ("2026-10-24T23:00", quiet_hours("22:00", "02:30"), Quiet(at("Europe/Berlin", "2026-10-25T02:30"))),
        ("2026-10-25T02:00", quiet_hours("02:30", "07:00"), Clear(at("Europe/Berlin", "2026-10-25T02:30"))),
    ],
)  # fmt: skip
def test_the_nights_on_which_clocks_are_changed(now, hours, expected):
    assert standing_at(at("Europe/Berlin", now), "Europe/Berlin", hours) == expected


def test_what_ended_at_the_first_of_two_equal_times_does_not_begin_again_at_the_second():
    second = at("Europe/Berlin", "2026-10-25T02:15", fold=1)
    assert standing_at(second, "Europe/Berlin", quiet_hours("22:00", "02:30")) == Clear(
        at("Europe/Berlin", "2026-10-25T22:00")
    )


def test_a_day_that_a_zone_skips_makes_no_hole_and_no_endless_night():
    """There was no 30 December 2011 in Apia."""
    evening = at("Pacific/Apia", "2011-12-29T23:00")
    assert standing_at(evening, "Pacific/Apia", NIGHT) == Quiet(at("Pacific/Apia", "2011-12-31T07:00"))


@pytest.mark.parametrize("text", ["22:00-07:00", " 22:00 - 07:00 ", "00:00-23:59"])
def test_a_range_is_read(text):
    assert parse_quiet_hours(text) == quiet_hours(*(part.strip() for part in text.split("-")))


def test_it_is_written_as_it_is_read():
    assert str(NIGHT) == "22:00-07:00"
    assert parse_quiet_hours(str(NIGHT)) == NIGHT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("22:00-22:00", "begin and end at 22:00; to send nothing at all, suppress the user"),
        ("22:00", "is no range of wall times"),
        ("", "is no range of wall times"),
        ("24:00-07:00", "'24:00' is no wall time to the minute"),
        ("22:60-07:00", "'22:60' is no wall time"),
        ("22:00-07:00+02:00", "is no range"),
        ("٢٢:00-07:00", "is no range"),
    ],
)
def test_what_is_refused(text, said):
    with pytest.raises(InvalidInput, match="quiet_hours: ") as caught:
        parse_quiet_hours(text)
    assert said in caught.value.reason


@pytest.mark.parametrize("given", [time(22, tzinfo=UTC), time(22, 0, 1), "22:00:30", 22, None])
def test_wall_times_are_to_the_minute_and_without_a_zone(given):
    with pytest.raises(InvalidInput, match="is no wall time to the minute"):
        quiet_hours(given, "07:00")


def test_an_unknown_zone_is_named():
    with pytest.raises(InvalidInput, match="'Mars/Base' is no IANA zone name"):
        standing_at(datetime(2026, 1, 1, tzinfo=UTC), "Mars/Base", NIGHT)

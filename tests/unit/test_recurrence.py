"""Series: where clocks change, what is added and left out, where the count may begin, and what is refused."""

import warnings
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from reminders.calendar.recurrence import Recurrence, take
from reminders.calendar.rules import WEEKDAYS, parse_rule
from reminders.domain.errors import InvalidInput

BERLIN = "Europe/Berlin"


def at(*parts):
    return datetime(*parts)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def series(rule, start, zone=BERLIN, **more):
    return Recurrence(start, zone, rule and parse_rule(rule), **more)


def instants(recurrence, number):
    return [occurrence.at for occurrence in take(recurrence.all(), number)]


def ids(recurrence, number=10):
    return [occurrence.recurrence_id for occurrence in take(recurrence.all(), number)]


def test_a_time_in_the_spring_gap_fires_an_hour_later_and_once():
    assert instants(series("FREQ=DAILY", at(2026, 3, 28, 2, 30)), 3) == [
        utc(2026, 3, 28, 1, 30), utc(2026, 3, 29, 1, 30), utc(2026, 3, 30, 0, 30),
    ]  # fmt: skip
    both = series("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=30;COUNT=6", at(2026, 3, 28, 2, 30))
    assert ids(both) == ["20260328T023000", "20260328T033000", "20260329T023000", "20260330T023000", "20260330T033000"]


def test_a_time_that_comes_twice_in_autumn_fires_at_the_first():
    assert instants(series("FREQ=DAILY", at(2026, 10, 24, 2, 30)), 3) == [
        utc(2026, 10, 24, 0, 30), utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30),
    ]  # fmt: skip


def test_the_order_is_that_of_the_instants_where_a_gap_swaps_wall_times():
    """02:45 is read as 03:45, which is later than 03:00."""
    found = take(series("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,45", at(2026, 3, 29, 2, 0)).all(), 4)
    assert [each.recurrence_id for each in found][:3] == ["20260329T020000", "20260329T024500", "20260330T020000"]
    swapped = series(None, at(2026, 3, 29, 2, 45), extra=(at(2026, 3, 29, 3, 0), at(2026, 3, 29, 3, 30)))
    assert ids(swapped) == ["20260329T030000", "20260329T033000", "20260329T024500"]


def test_hours_pass_evenly_through_both_changes():
    for start in (at(2026, 3, 28, 22, 15), at(2026, 10, 24, 22, 15)):
        found = instants(series("FREQ=HOURLY", start), 12)
        assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}
    names = ids(series("FREQ=HOURLY;COUNT=12", at(2026, 10, 24, 22, 15)), 20)
    assert len(set(names)) == 12


def test_a_zone_that_skipped_a_whole_day():
    """Samoa had no 30 December 2011."""
    found = take(series("FREQ=DAILY", at(2011, 12, 29, 10, 0), "Pacific/Apia").all(), 3)
    assert [each.recurrence_id for each in found] == ["20111229T100000", "20111230T100000", "20120101T100000"]
    assert [each.at for each in found] == [utc(2011, 12, 29, 20), utc(2011, 12, 30, 20), utc(2011, 12, 31, 20)]


def test_dates_that_do_not_exist_are_left_out():
    assert [i[:8] for i in ids(series("FREQ=MONTHLY", at(2026, 1, 31, 9, 0)), 4)] == ["20260131", "20260331", "20260531", "20260731"]  # fmt: skip
    assert [i[:8] for i in ids(series("FREQ=YEARLY", at(2096, 2, 29, 9, 0)), 2)] == ["20960229", "21040229"]


@pytest.mark.parametrize(
    ("until", "last"),
    [("20260105", "20260105T090000"), ("20260105T090000", "20260105T090000"), ("20260105T085959", "20260104T090000"),
     ("20260105T080000Z", "20260105T090000"), ("20260105T075959Z", "20260104T090000")],
)  # fmt: skip
def test_until_is_a_day_a_local_time_or_an_instant(until, last):
    assert ids(series(f"FREQ=DAILY;UNTIL={until}", at(2026, 1, 1, 9, 0)))[-1] == last


def test_added_and_left_out_times():
    found = series(
        "FREQ=WEEKLY;COUNT=4",
        at(2026, 1, 5, 9, 0),
        extra=(at(2026, 1, 7, 9, 0), at(2026, 1, 12, 9, 0)),
        left_out=(at(2026, 1, 19, 9, 0),),
    )
    assert [i[:8] for i in ids(found)] == ["20260105", "20260107", "20260112", "20260126"]


def test_a_turn_that_stands_alone_in_its_fifty_years_comes_once():
    found = series("FREQ=YEARLY;INTERVAL=40", at(2000, 1, 1, 9, 0))
    assert [i[:4] for i in ids(found, 3)] == ["2000", "2040", "2080"]
    assert [i[:4] for i in ids(series("FREQ=YEARLY;INTERVAL=60", at(2000, 1, 1, 9, 0)), 3)] == ["2000"]


def test_one_time_alone_is_a_series_too():
    assert ids(series(None, at(2026, 1, 5, 9, 0))) == ["20260105T090000"]


def test_after_is_later_than_and_on_request_at():
    daily = series("FREQ=DAILY", at(2026, 1, 1, 9, 0))
    assert daily.after(utc(2030, 6, 1, 7, 0)).at == utc(2030, 6, 2, 7, 0)
    assert daily.after(utc(2030, 6, 1, 7, 0), inclusive=True).at == utc(2030, 6, 1, 7, 0)
    assert series("FREQ=DAILY;COUNT=3", at(2026, 1, 1, 9, 0)).after(utc(2030, 1, 1)) is None


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "'' is no part of a rule"),
        ("BYDAY=MO", "has no FREQ"),
        ("FREQ=FORTNIGHTLY", "is none of YEARLY"),
        ("FREQ=SECONDLY", "more often than once a minute"),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ stands twice"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL: '0' is not a whole number from 1"),
        ("FREQ=DAILY;COUNT=1.5", "COUNT: '1.5'"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20260101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL: day is out of range"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL: 'TOMORROW' is no time"),
        ("FREQ=WEEKLY;BYDAY=2MO", "takes no number with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYDAY=XX", "'XX' is none of MO"),
        ("FREQ=MONTHLY;BYDAY=0MO", "from 1 to 53"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "count from 1"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY: '32'"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("FREQ=YEARLY;BYMONTH=4,6;BYMONTHDAY=-31", "never fires"),
        ("FREQ=WEEKLY;BYMONTHDAY=3", "BYMONTHDAY does not go with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYSETPOS=1", "needs another BY part"),
        ("FREQ=DAILY;BYSECOND=0,30", "more often than once a minute"),
        ("FREQ=DAILY;BYEASTER=0", "'BYEASTER=0' is no part of a rule"),
        ("FREQ=DAILY;X=" + "y" * 2000, "characters"),
    ],
)
def test_what_is_no_rule(rule, said):
    with pytest.raises(InvalidInput) as raised:
        parse_rule(rule)
    assert raised.value.field == "rule"
    assert said in raised.value.reason


def test_a_rule_that_never_fires_or_too_often_is_refused():
    with pytest.raises(InvalidInput, match="never fires"):
        series("FREQ=HOURLY;INTERVAL=24;BYHOUR=5", at(2026, 1, 1, 9, 0), "UTC").check()
    with pytest.raises(InvalidInput, match="never fires"):
        series("FREQ=DAILY;UNTIL=20250101", at(2026, 1, 1, 9, 0)).check()
    with pytest.raises(InvalidInput, match="more often than once a minute"):
        series("FREQ=DAILY", at(2026, 1, 1, 9, 0), extra=(at(2026, 1, 3, 9, 0, 59),)).check()
    series("FREQ=MINUTELY", at(2026, 1, 1, 9, 0)).check()


def test_a_rule_that_fires_once_in_decades_is_checked_within_a_few_of_its_turns(monkeypatch):
    """Looked for to the last year, this one would take half a minute."""
    looked = []
    seen = Recurrence.all
    monkeypatch.setattr(Recurrence, "all", lambda self: (looked.append(turn) or turn for turn in seen(self)))
    series("FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=3", at(2026, 1, 1, 9, 0)).check()
    assert len(looked) == 2


STARTS = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2030, 12, 31)).map(
    lambda moment: moment.replace(microsecond=0)
)


def _part(name, values, most=3):
    return st.lists(values, min_size=0, max_size=most, unique=True).map(
        lambda chosen: f";{name}={','.join(str(each) for each in chosen)}" if chosen else ""
    )


@st.composite
def rules(draw, fine=False):
    frequency = draw(st.sampled_from(("HOURLY", "MINUTELY") if fine else ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")))
    text = f"FREQ={frequency};INTERVAL={draw(st.integers(1, 90 if fine else 4))}"
    text += draw(st.sampled_from(["", ";WKST=SU", ";WKST=WE"]))
    text += draw(_part("BYMONTH", st.integers(1, 12)))
    days = st.sampled_from(WEEKDAYS)
    if frequency in {"YEARLY", "MONTHLY"}:
        days = st.builds(lambda n, day: f"{n}{day}", st.sampled_from(["", 1, 2, -1]), days)
    text += draw(_part("BYDAY", days))
    if frequency != "WEEKLY":
        text += draw(_part("BYMONTHDAY", st.sampled_from([1, 2, 13, 15, 28, -1, -2])))
    text += draw(_part("BYHOUR", st.integers(0, 23)))
    if not fine:
        text += draw(_part("BYMINUTE", st.integers(0, 59)))
        if ";BY" in text:
            text += draw(st.sampled_from(["", ";BYSETPOS=1", ";BYSETPOS=-1,2"]))
    return text


def _by_dateutil(rule, start, until):
    # A bound, since it looks for a rule's first turn as far as the year 9999.
    return list(rrulestr(rule.replace("FREQ", f"UNTIL={until:%Y%m%dT%H%M%S};FREQ"), dtstart=start))


@settings(max_examples=80, deadline=None)
@given(rules(), STARTS)
def test_days_agree_with_dateutil(rule, start):
    until = start + timedelta(days=800)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = _by_dateutil(rule, start, until)
    found = series(f"{rule};UNTIL={until:%Y%m%dT%H%M%S}", start, "UTC")
    assert [each.wall for each in found.all()] == expected


@settings(max_examples=60, deadline=None)
@given(rules(fine=True), STARTS)
def test_hours_and_minutes_agree_with_dateutil_where_clocks_do_not_change(rule, start):
    until = start + timedelta(days=40)
    try:
        expected = _by_dateutil(rule, start, until)
    except ValueError:  # it says so of a rule whose interval never meets its hours
        expected = []
    found = series(f"{rule};UNTIL={until:%Y%m%dT%H%M%S}", start, "UTC")
    assert [each.wall for each in found.all()] == expected


def _starts_anywhere(rule, start, zone, last, after):
    found = series(f"{rule};UNTIL={start + timedelta(days=last):%Y%m%d}", start, zone)
    moment = start.replace(tzinfo=UTC) + timedelta(days=after)
    expected = [each for each in found.all() if each.at > moment][:5]
    assert take(found.since(moment), 5) == expected


ZONES = st.sampled_from([BERLIN, "Australia/Lord_Howe", "UTC"])


@settings(max_examples=60, deadline=None)
@given(rules(), STARTS, ZONES, st.integers(0, 900))
def test_where_the_count_of_days_begins_makes_no_difference(rule, start, zone, after):
    _starts_anywhere(rule, start, zone, 1000, after)


@settings(max_examples=60, deadline=None)
@given(rules(fine=True), STARTS, ZONES, st.integers(0, 25))
def test_where_the_count_of_hours_begins_makes_no_difference(rule, start, zone, after):
    _starts_anywhere(rule, start, zone, 30, after)

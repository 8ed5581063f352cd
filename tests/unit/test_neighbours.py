"""Added times close to turns of a rule, or to each other, are refused however far ahead they are."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

import pytest

from reminders.calendar import neighbours
from reminders.calendar.recurrence import LOOKED_AHEAD, Recurrence
from reminders.calendar.rules import parse_rule
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput

START = datetime(2030, 1, 1, 9)
MINUTE = timedelta(minutes=1)
ALL_DAY = ",".join(map(str, range(24)))
ALL_HOUR = ",".join(map(str, range(60)))


def series(rule, *extra, left_out=(), start=START, zone="Europe/Berlin"):
    return Recurrence(start, zone, None if rule is None else parse_rule(rule), extra, left_out)


@pytest.mark.parametrize(
    ("rule", "extra"),
    [
        (None, datetime(2030, 1, 1, 9, 0, 59)),
        ("FREQ=DAILY", datetime(2032, 1, 5, 9, 0, 30)),
        ("FREQ=DAILY", datetime(2060, 1, 5, 8, 59, 1)),
        ("FREQ=YEARLY", datetime(2036, 1, 1, 9, 0, 1)),
        ("FREQ=DAILY;COUNT=3000", START + timedelta(days=2999, seconds=5)),
        ("FREQ=DAILY;UNTIL=20360101T090000", datetime(2036, 1, 1, 9, 0, 1)),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", datetime(2038, 5, 31, 9, 0, 30)),
        ("FREQ=DAILY;BYHOUR=0;BYMINUTE=0", datetime(2036, 7, 1, 23, 59, 50)),
        ("FREQ=HOURLY;BYMINUTE=25", datetime(2036, 7, 1, 3, 24, 50)),
        ("FREQ=MINUTELY;COUNT=2000", START + timedelta(minutes=1999, seconds=-1)),
        # 02:30 of 31 March does not exist and fires at 03:30.
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", datetime(2041, 3, 31, 3, 30, 20)),
    ],
)
def test_an_added_time_close_to_a_turn_is_refused_however_far_ahead(rule, extra):
    with pytest.raises(InvalidInput, match=r"more often than once a minute.*\(Europe/Berlin\)"):
        series(rule, extra).check()


@pytest.mark.parametrize(
    ("rule", "extra", "left_out"),
    [
        ("FREQ=DAILY", datetime(2036, 1, 5, 9, 1), ()),
        ("FREQ=DAILY", datetime(2036, 1, 5, 9), ()),
        ("FREQ=DAILY", datetime(2036, 1, 5, 9, 0, 30), (datetime(2036, 1, 5, 9),)),
        ("FREQ=DAILY", datetime(2036, 1, 5, 9, 0, 30), (datetime(2036, 1, 5, 9, 0, 30),)),
        ("FREQ=DAILY;COUNT=3000", START + timedelta(days=3000, seconds=5), ()),
        ("FREQ=DAILY;UNTIL=20360101T085959", datetime(2036, 1, 1, 9, 0, 1), ()),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", datetime(2038, 5, 28, 9, 0, 30), ()),
        ("FREQ=MINUTELY;COUNT=2000", START + timedelta(minutes=2000, seconds=1), ()),
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", datetime(2041, 3, 31, 2, 30), ()),
    ],
)
def test_one_that_is_not_close_or_whose_neighbour_is_left_out_is_taken(rule, extra, left_out):
    series(rule, extra, left_out=left_out).check()


def test_added_times_close_to_each_other_are_refused():
    far = datetime(2046, 1, 5, 9, 0, 30)
    with pytest.raises(InvalidInput, match="2046-01-05 09:00:30 and 2046-01-05 09:00:31"):
        series("FREQ=YEARLY", datetime(2040, 5, 5, 5), far + timedelta(seconds=1), far).check()
    series("FREQ=YEARLY", far, far + MINUTE).check()


def random_rule(chance):
    minutes = ",".join(map(str, sorted(chance.sample(range(60), 15))))
    return chance.choice(
        (
            f"FREQ=DAILY;BYMINUTE={minutes}",
            f"FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3;BYMINUTE={minutes}",
            f"FREQ=WEEKLY;BYDAY=SU,MO;BYHOUR=0,1,2;BYMINUTE={minutes};BYSECOND=20",
            f"FREQ=MONTHLY;BYDAY=-1SU,1SU;BYHOUR=1,2,3;BYMINUTE={minutes};COUNT=900",
            f"FREQ=MONTHLY;BYMONTHDAY=25,26,27,28;BYHOUR=2,3;BYMINUTE={minutes};BYSETPOS=2,-3,5",
            f"FREQ=HOURLY;BYMINUTE={minutes}",
            f"FREQ=HOURLY;INTERVAL=5;BYMINUTE={minutes};COUNT=3000",
            "FREQ=MINUTELY;INTERVAL=7;BYDAY=SU",
        )
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "UTC"])
def test_it_agrees_with_a_walk_through_all_turns(zone):
    chance = random.Random(zone)
    start, refused = datetime(2026, 1, 4, 1, 30), 0
    for _ in range(60):
        rule = random_rule(chance)
        day = chance.choice((datetime(2026, 3, 29), datetime(2026, 4, 5), datetime(2026, 3, 8), datetime(2026, 6, 28)))
        extra = day + timedelta(
            hours=chance.randrange(4), minutes=chance.randrange(60), seconds=chance.choice((0, 1, 20, 59))
        )
        found = series(rule, extra, start=start, zone=zone)
        end = extra.replace(tzinfo=load_zone(zone)).astimezone(UTC) + timedelta(hours=3)
        every = [each.at for each in takewhile(lambda each, end=end: each.at <= end, found.all())]
        often = any(later - earlier < MINUTE for earlier, later in pairwise(every))
        refused += often
        try:
            found._check_extra("rule")
        except InvalidInput:
            assert often, (rule, extra)
        else:
            assert not often, (rule, extra)
    assert 3 < refused < 57


def test_a_thousand_added_times_far_ahead_look_at_few_turns(monkeypatch):
    looked = 0

    def counted(*arguments):
        nonlocal looked
        for wall in real(*arguments):
            looked += 1
            yield wall

    real = neighbours.wall_times
    monkeypatch.setattr(neighbours, "wall_times", counted)
    far = START + LOOKED_AHEAD + timedelta(days=30)
    extra = [far + timedelta(days=5 * n, seconds=n % 1440 * 60) for n in range(1000)]
    series(f"FREQ=MONTHLY;BYMONTHDAY=1,2,3;BYHOUR={ALL_DAY};BYMINUTE={ALL_HOUR}", *extra)._check_extra("rule")
    assert looked == 0
    with pytest.raises(InvalidInput):
        series(f"FREQ=DAILY;BYHOUR={ALL_DAY};BYMINUTE={ALL_HOUR};BYSECOND=40", *extra)._check_extra("rule")
    assert 0 < looked <= 20

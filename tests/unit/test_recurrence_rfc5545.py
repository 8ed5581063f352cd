"""The worked examples of RFC 5545 section 3.8.5.3, in their zone, America/New_York."""

from datetime import datetime

import pytest

from reminders.calendar.recurrence import Recurrence, take
from reminders.calendar.rules import parse_rule

ZONE = "America/New_York"

# Start, rule, how many there are in all (None: no end), and the first of them: dates at the start's time of day, or
# times of one day, or whole times.
EXAMPLES = [
    ("19970902T090000", "FREQ=DAILY;COUNT=10", 10, "0902 0903 0904 0905 0906 0907 0908 0909 0910 0911"),
    ("19970902T090000", "FREQ=DAILY;UNTIL=19971224T000000Z", 113, "0902 0903 0904"),
    ("19970902T090000", "FREQ=DAILY;INTERVAL=2", None, "0902 0904 0906 0908"),
    ("19970902T090000", "FREQ=DAILY;INTERVAL=10;COUNT=5", 5, "0902 0912 0922 1002 1012"),
    ("19980101T090000", "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", 93, "0101 0102 0103"),
    ("19980101T090000", "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1", 93, "0101 0102 0103"),
    ("19970902T090000", "FREQ=WEEKLY;COUNT=10", 10, "0902 0909 0916 0923 0930 1007 1014 1021 1028 1104"),
    ("19970902T090000", "FREQ=WEEKLY;UNTIL=19971224T000000Z", 17, "0902 0909 0916 0923 0930"),
    ("19970902T090000", "FREQ=WEEKLY;INTERVAL=2;WKST=SU", None, "0902 0916 0930 1014 1028 1111 1125 1209 1223"),
    ("19970902T090000", "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH", 10, "0902 0904 0909 0911 0916 0918"),
    ("19970902T090000", "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH", 10, "0902 0904 0909 0911 0916 0918"),
    ("19970901T090000", "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR", 25,
     "0901 0903 0905 0915 0917 0919 0929 1001 1003 1013"),
    ("19970902T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", 8, "0902 0904 0916 0918 0930 1002 1014 1016"),
    ("19970905T090000", "FREQ=MONTHLY;COUNT=10;BYDAY=1FR", 10, "0905 1003 1107 1205"),
    ("19970905T090000", "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR", 4, "0905 1003 1107 1205"),
    ("19970907T090000", "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", 10, "0907 0928 1102 1130"),
    ("19970922T090000", "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", 6, "0922 1020 1117 1222"),
    ("19970928T090000", "FREQ=MONTHLY;BYMONTHDAY=-3", None, "0928 1029 1128 1229"),
    ("19970902T090000", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15", 10, "0902 0915 1002 1015 1102 1115 1202 1215"),
    ("19970930T090000", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", 10, "0930 1001 1031 1101 1130 1201 1231"),
    ("19970910T090000", "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15", 10, "0910 0911 0912 0913 0914 0915"),
    ("19970902T090000", "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", None, "0902 0909 0916 0923 0930 1104 1111 1118 1125"),
    ("19970610T090000", "FREQ=YEARLY;COUNT=10;BYMONTH=6,7", 10, "0610 0710"),
    ("19970310T090000", "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3", 10, "0310"),
    ("19970101T090000", "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", 10, "0101 0410 0719"),
    ("19970519T090000", "FREQ=YEARLY;BYDAY=20MO", None, "0519"),
    ("19970512T090000", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", None, "0512"),
    ("19970313T090000", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH", None, "0313 0320 0327"),
    ("19970605T090000", "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8", None, "0605 0612 0619 0626 0703 0710"),
    ("19970913T090000", "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", None, "0913 1011 1108 1213"),
    ("19961105T090000", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", None, "1105"),
    ("19970904T090000", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", 3, "0904 1007 1106"),
    ("19970929T090000", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", None, "0929 1030 1127 1230"),
    ("19970902T090000", "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", 3, "09:00 12:00 15:00"),
    ("19970902T090000", "FREQ=MINUTELY;INTERVAL=15;COUNT=6", 6, "09:00 09:15 09:30 09:45 10:00 10:15"),
    ("19970902T090000", "FREQ=MINUTELY;INTERVAL=90;COUNT=4", 4, "09:00 10:30 12:00 13:30"),
    ("19970902T090000", "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40", None, "09:00 09:20 09:40 10:00 10:20"),
    ("19970902T090000", "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16", None, "09:00 09:20 09:40 10:00 10:20"),
    ("19970805T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", 4, "0805 0810 0819 0824"),
    ("19970805T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", 4, "0805 0817 0819 0831"),
    ("20070115T090000", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", 5, "0115 0130 0215 0315 0330"),
    ("19980214T090000", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", None, "0313 1113"),
]  # fmt: skip


def _read(text):
    return datetime.strptime(text, "%Y%m%dT%H%M%S")


def _expected(start, text):
    for each in text.split():
        if ":" in each:
            yield start.replace(hour=int(each[:2]), minute=int(each[3:]))
        else:
            yield start.replace(month=int(each[:2]), day=int(each[2:]))


@pytest.mark.parametrize(("start", "rule", "total", "first"), EXAMPLES, ids=[example[1] for example in EXAMPLES])
def test_the_examples_of_the_standard(start, rule, total, first):
    begin = _read(start)
    series = Recurrence(begin, ZONE, parse_rule(rule))
    found = [occurrence.wall for occurrence in take(series.all(), (total or 200) + 5)]
    expected = list(_expected(begin, first))
    assert found[: len(expected)] == expected
    if total is None:
        assert len(found) == 205
    else:
        assert len(found) == total


def test_years_further_on():
    """What the short form above cannot say."""
    elections = Recurrence(_read("19961105T090000"), ZONE, parse_rule(EXAMPLES[30][1]))
    assert [o.wall.strftime("%Y%m%d") for o in take(elections.all(), 3)] == ["19961105", "20001107", "20041102"]
    weeks = Recurrence(_read("19970512T090000"), ZONE, parse_rule("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO"))
    assert [o.wall.strftime("%Y%m%d") for o in take(weeks.all(), 3)] == ["19970512", "19980511", "19990517"]


def test_every_friday_the_thirteenth_but_the_first_day():
    """The example with EXDATE."""
    series = Recurrence(
        _read("19970902T090000"), ZONE, parse_rule("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13"), left_out=(_read("19970902T090000"),)
    )  # fmt: skip
    assert [o.wall.strftime("%Y%m%d") for o in take(series.all(), 5)] == [
        "19980213", "19980313", "19981113", "19990813", "20001013",
    ]  # fmt: skip

"""Which reminders a calendar asks for, and when they are due."""

from datetime import UTC, datetime, time, timedelta
from io import BytesIO

import icalendar
import pytest
import recurring_ical_events
from hypothesis import given, settings
from hypothesis import strategies as st

from calendar_files import BERLIN, DATA, calendar, event
from reminders.domain.errors import RemindersError
from reminders.intake.ical import asking
from reminders.intake.ical.asking import Wishes, asked_for
from reminders.intake.ical.importing import read_calendar

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def ask(text, *, now=NOW, horizon=timedelta(days=400), overdue="skip", **more):
    raw = text if isinstance(text, bytes) else text.encode()
    return asked_for(read_calendar(BytesIO(raw), "a.ics"), Wishes(now, now + horizon, overdue, **more))


def due(asked):
    return [f"{ringing.due_at:%Y-%m-%dT%H:%M}" for ringing in sorted(asked.ringings, key=lambda each: each.due_at)]


def dues(*lines, **more):
    asked = ask(calendar(event(*lines, **{name: more.pop(name) for name in ("uid", "alarm") if name in more})), **more)
    assert asked.rejects == []
    return due(asked)


def fault(*lines, uid="one@example.org", **more):
    asked = ask(calendar(event(*lines, uid=uid)), **more)
    assert asked.ringings == []
    [reject] = asked.rejects
    return reject.line, reject.field, reject.reason


# The instants of the sample calendars, worked out by hand.


def sample(name, **more):
    asked = ask((DATA / f"{name}.ics").read_bytes(), overdue="send", **more)
    assert asked.rejects == []
    return due(asked)


def test_a_weekly_series_across_a_change_of_the_clocks_without_two_deleted_ones():
    """00:30 in Berlin: 23:30 UTC the day before in winter, 22:30 in summer; the 11th and the 25th of March are deleted."""
    assert sample("each_week_but_two_deleted") == [
        "2019-03-03T23:30", "2019-03-17T23:30", "2019-03-31T22:30", "2019-04-07T22:30", "2019-04-14T22:30", "2019-04-21T22:30",
    ]  # fmt: skip


def test_alarms_before_after_and_repeated():
    """13:00 in London: 15 minutes and an hour before, 15 minutes after, and one, two and three hours after."""
    assert sample("alarm_several_in_one") == [
        "2024-12-20T12:00", "2024-12-20T12:45", "2024-12-20T13:15", "2024-12-20T14:00", "2024-12-20T15:00", "2024-12-20T16:00",
    ]  # fmt: skip


def test_alarms_that_were_acknowledged_do_not_ring_again():
    """Daily at 14:00 from the 26th to the 30th, an hour before; seen on the 27th at 16:27."""
    assert sample("alarm_recurring_and_acknowledged_at_2024_11_27_16_27") == [
        "2024-11-28T13:00", "2024-11-29T13:00", "2024-11-30T13:00",
    ]  # fmt: skip


def test_a_list_of_dates_of_an_event_without_uid():
    found = sample("rdate_hackerpublicradio")
    assert len(found) == 12
    assert found[0] == "2013-08-03T19:00"
    assert found[-1] == "2014-07-05T19:00"


def test_whole_days_at_the_stated_local_time():
    found = sample("Germany_Holidays", zone="Europe/Berlin", all_day_at=time(9, 30))
    assert len(found) == 34
    assert "2019-01-01T08:30" in found
    assert "2019-05-01T07:30" in found


def test_a_school_calendar_agrees_with_an_independent_library():
    """Before and after both changes of the clocks in Chicago."""
    raw = (DATA / "issue_48_dst.ics").read_bytes()
    begin, end = datetime(2020, 9, 1, tzinfo=UTC), datetime(2021, 4, 1, tzinfo=UTC)
    expected = sorted(
        f"{each.start.astimezone(UTC):%Y-%m-%dT%H:%M}"
        for each in recurring_ical_events.of(icalendar.Calendar.from_ical(raw)).between(begin, end)
    )
    asked = ask(raw, now=begin, horizon=end - begin)
    assert due(asked) == expected
    assert len(expected) > 200


# Alarms


def test_a_day_before_is_the_same_wall_time_and_24_hours_are_24_hours():
    """The clocks of Berlin go forward on 29 March 2026."""
    start = f"DTSTART;{BERLIN}:20260329T090000"
    assert dues(start, alarm="-P1D") == ["2026-03-28T08:00"]
    assert dues(start, alarm="-PT24H") == ["2026-03-28T07:00"]
    assert dues(start, alarm="-P1DT1H") == ["2026-03-28T07:00"]


@pytest.mark.parametrize("end", ["DTEND:20260401T100000Z", "DURATION:PT1H"])
def test_an_alarm_relative_to_the_end(end):
    alarm = ("BEGIN:VALARM", "TRIGGER;RELATED=END:-PT5M", "END:VALARM")
    assert dues("DTSTART:20260401T090000Z", end, *alarm) == ["2026-04-01T09:55"]


def test_an_alarm_at_an_instant_rings_once_however_often_its_event_recurs():
    alarm = ("BEGIN:VALARM", "TRIGGER;VALUE=DATE-TIME:20260405T100000Z", "END:VALARM")
    assert dues("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=9", *alarm) == ["2026-04-05T10:00"]


def test_an_alarm_of_a_whole_day_counts_from_midnight():
    """As a phone writes "the evening before at nine"."""
    assert dues("DTSTART;VALUE=DATE:20260401", alarm="-PT3H", zone="Europe/Berlin") == ["2026-03-31T19:00"]


def test_alarms_that_ring_at_the_same_time_are_one():
    """Programs write a sound and a window as two alarms; a fifth of an hour is twelve minutes."""
    twice = ("BEGIN:VALARM", "ACTION:AUDIO", "TRIGGER:-PT0H15M", "END:VALARM")
    assert dues("DTSTART:20260401T090000Z", *twice, alarm="-PT15M") == ["2026-04-01T08:45"]


def test_an_alarm_that_is_none_is_none():
    none = ("BEGIN:VALARM", "ACTION:NONE", "TRIGGER;VALUE=DATE-TIME:19760401T005545Z", "END:VALARM")
    assert dues("DTSTART:20260401T090000Z", *none, at_start=False) == []
    assert dues("DTSTART:20260401T090000Z", *none) == ["2026-04-01T09:00"]


def test_acknowledged_is_of_one_alarm():
    first = ("BEGIN:VALARM", "TRIGGER:-PT1H", "ACKNOWLEDGED:20260401T080000Z", "END:VALARM")
    assert dues("DTSTART:20260401T090000Z", *first, alarm="-PT30M") == ["2026-04-01T08:30"]


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        (["TRIGGER:soon"], "TRIGGER"),
        ([], "TRIGGER"),
        (["TRIGGER:-P400D"], "TRIGGER"),
        (["TRIGGER;RELATED=MIDDLE:-PT5M"], "TRIGGER"),
        (["TRIGGER:-PT5M", "REPEAT:3"], "REPEAT"),
        (["TRIGGER:-PT5M", "REPEAT:100000", "DURATION:PT1M"], "REPEAT"),
        (["TRIGGER:-PT5M", "REPEAT:3", "DURATION:-PT1M"], "DURATION"),
        (["TRIGGER:-PT5M", "ACKNOWLEDGED:yesterday"], "ACKNOWLEDGED"),
    ],
)
def test_a_broken_alarm_is_reported(lines, field):
    line, found, _ = fault("DTSTART:20260401T090000Z", "BEGIN:VALARM", *lines, "END:VALARM")
    assert found == field
    assert line >= 6


# Turns


def test_a_turn_that_was_moved_one_that_is_cancelled_and_all_from_one_on():
    series = event(f"DTSTART;{BERLIN}:20260401T090000", "RRULE:FREQ=DAILY;COUNT=8")
    moved = event(f"RECURRENCE-ID;{BERLIN}:20260402T090000", f"DTSTART;{BERLIN}:20260410T120000")
    cancelled = event("RECURRENCE-ID:20260403T070000Z", "DTSTART:20260403T070000Z", "STATUS:CANCELLED")
    later = event(
        f"RECURRENCE-ID;RANGE=THISANDFUTURE;{BERLIN}:20260406T090000",
        f"DTSTART;{BERLIN}:20260406T180000",
        alarm="-PT1H",
    )
    asked = ask(calendar(moved, cancelled, later, series))
    assert asked.rejects == []
    assert due(asked) == [
        "2026-04-01T07:00", "2026-04-04T07:00", "2026-04-05T07:00", "2026-04-06T15:00", "2026-04-07T15:00", "2026-04-08T15:00",
        "2026-04-10T10:00",
    ]  # fmt: skip
    names = {ringing.recurrence_id for ringing in asked.ringings}
    assert names == {f"202604{day:02}T090000" for day in (1, 2, 4, 5, 6, 7, 8)}


def test_periods_have_their_own_length():
    lines = (
        "DTSTART:20260401T090000Z", "DTEND:20260401T100000Z",
        "RDATE;VALUE=PERIOD:20260402T090000Z/PT3H,20260403T090000Z/20260403T093000Z",
        "BEGIN:VALARM", "TRIGGER;RELATED=END:PT0S", "END:VALARM",
    )  # fmt: skip
    assert dues(*lines) == ["2026-04-01T10:00", "2026-04-02T12:00", "2026-04-03T09:30"]


def test_the_first_one_counts_also_where_the_rule_does_not_give_it():
    assert dues("DTSTART:20260401T090000Z", "RRULE:FREQ=WEEKLY;BYDAY=FR;UNTIL=20260411T000000Z") == [
        "2026-04-01T09:00", "2026-04-03T09:00", "2026-04-10T09:00",
    ]  # fmt: skip


def test_a_date_leaves_out_the_turn_of_that_day():
    assert dues("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;VALUE=DATE:20260402") == [
        "2026-04-01T09:00", "2026-04-03T09:00",
    ]  # fmt: skip


def test_what_never_ends_is_cut_at_the_horizon_and_a_single_event_is_not():
    assert len(dues("DTSTART:20200101T090000Z", "RRULE:FREQ=DAILY", horizon=timedelta(days=30))) == 31
    assert dues("DTSTART:20400101T090000Z", horizon=timedelta(days=30)) == ["2040-01-01T09:00"]


def test_an_alarm_far_from_its_event_counts_where_it_rings():
    found = dues("DTSTART:20200101T090000Z", "RRULE:FREQ=YEARLY", alarm="-P300D", horizon=timedelta(days=100))
    assert found == ["2026-03-07T09:00"]


def test_of_two_revisions_the_newer_counts():
    old, new = event("DTSTART:20260401T090000Z"), event("DTSTART:20260401T100000Z", "SEQUENCE:1")
    for order in ((old, new), (new, old)):
        asked = ask(calendar(*order))
        assert (due(asked), asked.rejects, asked.skipped) == (["2026-04-01T10:00"], [], 1)


def test_the_same_event_twice_is_reported():
    asked = ask(calendar(event("DTSTART:20260401T090000Z"), event("DTSTART:20260401T100000Z")))
    assert [(reject.line, reject.field) for reject in asked.rejects] == [(7, "UID")]
    assert due(asked) == ["2026-04-01T09:00"]


# Zones

HALF = """BEGIN:VTIMEZONE
TZID:Half past
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0630
TZOFFSETTO:+0530
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0530
TZOFFSETTO:+0630
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE"""


def in_zone(tzid, *walls, zones=(), **more):
    events = [event(f"DTSTART;TZID={tzid}:{wall}", uid=f"{wall}@example.org") for wall in walls]
    asked = ask(calendar(*zones, *events), **more)
    assert asked.rejects == []
    return due(asked), asked.ringings[0].zone


@pytest.mark.parametrize(
    ("tzid", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("/freeassociation.sourceforge.net/Europe/Berlin", "Europe/Berlin"),
        ("/mozilla.org/20050126_1/America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("europe/berlin", "Europe/Berlin"),
    ],
)
def test_names_from_elsewhere_stand_for_iana_zones(tzid, name):
    assert in_zone(tzid, "20260401T090000")[1] == name


def test_a_zone_of_the_calendars_own_with_the_gap_and_the_repeated_hour():
    """In the gap the offset before it counts, of two the first."""
    walls = ("20260328T090000", "20260329T023000", "20260401T090000", "20261025T023000", "20261026T090000")
    assert in_zone("Half past", *walls, zones=(HALF,)) == (
        ["2026-03-28T03:30", "2026-03-28T21:00", "2026-04-01T02:30", "2026-10-24T20:00", "2026-10-26T03:30"],
        None,
    )


def test_a_series_in_a_zone_of_the_calendars_own():
    series = event("DTSTART;TZID=Half past:20260327T090000", "RRULE:FREQ=DAILY;UNTIL=20260330T023000Z")
    assert due(ask(calendar(series, HALF))) == [
        "2026-03-27T03:30",
        "2026-03-28T03:30",
        "2026-03-29T02:30",
        "2026-03-30T02:30",
    ]


def test_a_name_of_windows_that_the_calendar_defines_otherwise_means_that_definition():
    other = HALF.replace("Half past", "W. Europe Standard Time")
    assert in_zone("W. Europe Standard Time", "20260401T090000", zones=(other,)) == (["2026-04-01T02:30"], None)
    alike = other.replace("+0530", "+0100").replace("+0630", "+0200")
    assert in_zone("W. Europe Standard Time", "20260401T090000", zones=(alike,)) == (
        ["2026-04-01T07:00"],
        "Europe/Berlin",
    )


def test_an_iana_name_means_this_releases_zone():
    other = HALF.replace("Half past", "Europe/Berlin")
    assert in_zone("Europe/Berlin", "20260401T090000", zones=(other,))[0] == ["2026-04-01T07:00"]


def test_floating_times_are_where_the_command_or_else_the_calendar_says():
    floating = event("DTSTART:20260401T090000")
    tokyo = calendar(floating, head=("X-WR-TIMEZONE:Asia/Tokyo",))
    assert due(ask(tokyo)) == ["2026-04-01T00:00"]
    assert due(ask(tokyo, zone="Europe/Berlin")) == ["2026-04-01T07:00"]
    line, field, reason = fault("DTSTART:20260401T090000")
    assert (line, field) == (5, "DTSTART")
    assert "--zone" in reason


# Broken ones


@pytest.mark.parametrize(
    ("lines", "line", "field", "part"),
    [
        (["DTSTART:20260230T090000Z"], 5, "DTSTART", "no date or time"),
        (["DTSTART:tomorrow"], 5, "DTSTART", "'tomorrow'"),
        (["SUMMARY:x"], 3, "DTSTART", "missing"),
        (["DTSTART;TZID=Mars/Base:20260401T090000"], 5, "DTSTART", "'Mars/Base'"),
        (["DTSTART:20260401T090000Z", "DTEND:20260401T080000Z"], 6, "DTEND", "before"),
        (["DTSTART:20260401T090000Z", "DTEND;VALUE=DATE:20260402"], 6, "DTEND", "is a date"),
        (["DTSTART:20260401T090000Z", "DURATION:-PT1H"], 6, "DURATION", "below zero"),
        (["DTSTART:20260401T090000Z", "RRULE:FREQ=SECONDLY"], 6, "RRULE", "once a minute"),
        (["DTSTART:20260401T090000Z", "RRULE:FREQ=OFTEN"], 6, "RRULE", "FREQ"),
        (["DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"], 7, "RRULE", "twice"),
        (["DTSTART:20260401T090000Z", "EXDATE:20260401T0900"], 6, "EXDATE", "no date or time"),
        (["DTSTART:20260401T090000Z", "EXRULE:FREQ=DAILY"], 6, "EXRULE", "EXDATE"),
        (["DTSTART:20260401T090000Z", "SEQUENCE:new"], 6, "SEQUENCE", "whole number"),
        (
            ["DTSTART:20260401T090000Z", "RECURRENCE-ID;RANGE=THISANDPRIOR:20260401T090000Z"],
            6,
            "RECURRENCE-ID",
            "RANGE",
        ),
        (
            ["DTSTART:20260401T090000Z", "DESCRIPTION:one", "two without a blank before it"],
            7,
            None,
            "begins with a blank",
        ),
        (["DTSTART:20260401T090000Z", "BEGIN:VALARM", "TRIGGER:-PT5M"], 6, None, "VALARM has no END"),
        (["DTSTART:20260401T090000Z", "END:VTODO"], 6, None, "ends nothing"),
        (["DTSTART:99991231T235959Z", "DURATION:PT1H"], 5, "DTSTART", "years"),
    ],
)
def test_what_is_broken_is_reported_by_line(lines, line, field, part):
    found, name, reason = fault(*lines, zone="Europe/Berlin")
    assert (found, name) == (line, field)
    assert part in reason


def test_good_events_beside_broken_ones_count():
    asked = ask(calendar(event("DTSTART:no"), event("DTSTART:20260401T090000Z", uid="two@example.org")))
    assert due(asked) == ["2026-04-01T09:00"]
    assert [reject.line for reject in asked.rejects] == [5]
    assert asked.whole
    assert asked.broken == {"one@example.org"}


def test_a_broken_turn_takes_its_series_along():
    """Without the turn the series would ring at its old time."""
    asked = ask(
        calendar(
            event("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=3"),
            event("RECURRENCE-ID:20260402T090000Z", "DTSTART:whenever"),
        )
    )
    assert asked.ringings == []
    assert [(reject.line, reject.field) for reject in asked.rejects] == [(3, "UID"), (11, "DTSTART")]


def test_an_end_that_is_missing_is_reported_and_the_next_event_counts():
    cut = event("DTSTART:20260401T090000Z").removesuffix("\nEND:VEVENT")
    asked = ask(calendar(cut, event("DTSTART:20260402T090000Z", uid="two@example.org")))
    assert due(asked) == ["2026-04-02T09:00"]
    assert [(reject.line, reject.reason) for reject in asked.rejects] == [(3, "VEVENT has no END")]


def test_a_file_that_is_cut_off_is_not_whole():
    text = calendar(event("DTSTART:20260401T090000Z"), event("DTSTART:20260402T090000Z", uid="two@example.org"))
    asked = ask(text[: text.rindex("DTSTART")])
    assert due(asked) == ["2026-04-01T09:00"]
    assert not asked.whole
    assert all("END" in reject.reason for reject in asked.rejects)


# Encodings and lines


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(encoding, end):
    text = calendar(
        event("DTSTART:20260401T090000Z", "SUMMARY:Größe", uid="größe@example.org"), event("DTSTART:no", uid="b")
    )
    asked = ask(text.replace("\n", end).encode(encoding), texts=("SUMMARY",))
    assert due(asked) == ["2026-04-01T09:00"]
    assert asked.ringings[0].data() == {"uid": "größe@example.org", "start": "2026-04-01T09:00:00Z", "summary": "Größe"}
    assert [reject.line for reject in asked.rejects] == [10]


def test_latin_1_harms_nothing_but_what_identifies():
    text = calendar(event("DTSTART:20260401T090000Z", "SUMMARY:Größe"), event("DTSTART:20260402T090000Z", uid="größe"))
    asked = ask(text.encode("latin-1"))
    assert due(asked) == ["2026-04-01T09:00"]
    assert [(reject.line, reject.reason[:16]) for reject in asked.rejects] == [(9, "UID is not UTF-8")]


def test_folds_may_part_a_character():
    raw = calendar(event("DTSTART:20260401T090000Z", uid="größe@example.org")).encode()
    place = raw.index("ö".encode()) + 1
    asked = ask(raw[:place] + b"\r\n " + raw[place:])
    assert asked.ringings[0].data()["uid"] == "größe@example.org"


def test_texts_are_kept_only_on_demand():
    text = calendar(event("DTSTART:20260401T090000Z", "SUMMARY:See\\, me\\nnow", "LOCATION:Home"))
    assert ask(text).ringings[0].data().keys() == {"uid", "start"}
    assert ask(text, texts=("SUMMARY",)).ringings[0].data()["summary"] == "See, me\nnow"


# Hostile ones


def test_deep_nesting_is_reported():
    deep = "\n".join(["BEGIN:VALARM"] * 50_000 + ["END:VALARM"] * 50_000)
    asked = ask(
        calendar(event("DTSTART:20260401T090000Z", deep), event("DTSTART:20260402T090000Z", uid="two@example.org"))
    )
    assert due(asked) == ["2026-04-02T09:00"]
    assert "deeper" in asked.rejects[0].reason


@pytest.mark.parametrize(
    ("name", "rejected"),
    [("X-FOO", 0), ("ATTACH", 0), ("DESCRIPTION", 0), ("SUMMARY", 0), ("RDATE", 1), ("RRULE", 1), ("UID", 1)],
)
def test_a_line_of_a_megabyte_rejects_its_event_only_where_it_counts(name, rejected):
    long = event("DTSTART:20260401T090000Z", f"{name}:{'x' * (1 << 20)}", uid="long")
    found = ask(calendar(long, event("DTSTART:20260401T090000Z", uid="other")))
    assert [reject.reason for reject in found.rejects] == [f"{name} is longer than 1,048,576 bytes"] * rejected
    assert len(found.ringings) == 2 - rejected


def test_a_line_folded_a_million_times_is_reported():
    bomb = "EXDATE:20260401T090000Z" + "\n ,x" * 1_000_000
    line, _, reason = fault("DTSTART:20260401T090000Z", bomb)
    assert line == 6
    assert "longer than" in reason


def test_more_alarms_than_anybody_hears_are_reported():
    alarm = "BEGIN:VALARM\nTRIGGER:-PT{}S\nREPEAT:100\nDURATION:PT1S\nEND:VALARM"
    line, _, reason = fault("DTSTART:20260401T090000Z", *(alarm.format(200 * n) for n in range(1000)))
    assert "1,000 times" in reason
    assert line == 6 + 5 * 9


def test_a_zone_whose_clocks_change_all_the_time_is_reported():
    part = "BEGIN:STANDARD\nDTSTART:19700101T0{}0000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0{}00\nRRULE:FREQ=MONTHLY\nEND:STANDARD"
    zone = "\n".join(["BEGIN:VTIMEZONE", "TZID:X", *(part.format(n, n) for n in range(5)), "END:VTIMEZONE"])
    events = [event("DTSTART;TZID=X:20260401T090000", uid=f"{n}@example.org") for n in range(3)]
    asked = ask(calendar(zone, *events))
    assert [reject.field for reject in asked.rejects] == ["DTSTART"] * 3
    assert "5,000 changes" in asked.rejects[0].reason


def test_too_many_reminders_are_refused(monkeypatch):
    monkeypatch.setattr(asking, "MOST_REMINDERS", 1000)
    events = [event("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY", uid=f"{n}@example.org") for n in range(5)]
    with pytest.raises(RemindersError, match="more than 1,000 reminders, as far as line"):
        ask(calendar(*events))


def test_rules_that_take_too_long_are_refused(monkeypatch):
    monkeypatch.setattr(asking, "MOST_SECONDS", -1.0)
    with pytest.raises(RemindersError, match="rules take more"):
        ask(calendar(event("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY")))


@pytest.mark.parametrize("text", ["", "hello", "BEGIN:VCARD\nEND:VCARD\n"])
def test_no_calendar_is_refused(text):
    with pytest.raises(RemindersError, match="no iCalendar"):
        ask(text)


@pytest.mark.parametrize("head", ["METHOD:REPLY", "VERSION:1.0"])
def test_other_messages_and_formats_are_refused(head):
    text = calendar(event("DTSTART:20260401T090000Z"), head=(head,))
    with pytest.raises(RemindersError):
        ask(text.replace("VERSION:2.0\n", "") if head.startswith("VERSION") else text)


LINES = st.sampled_from(
    [
        "BEGIN:VCALENDAR", "END:VCALENDAR", "BEGIN:VEVENT", "END:VEVENT", "BEGIN:VALARM", "END:VALARM", "BEGIN:VTIMEZONE",
        "END:VTIMEZONE", "BEGIN:STANDARD", "END:STANDARD", "TZID:Z", "TZOFFSETFROM:+0100", "TZOFFSETTO:-9999", "UID:a", "UID:b",
        "DTSTART:20260401T090000Z", "DTSTART;TZID=Z:20260401T090000", "DTSTART;VALUE=DATE:20260401", "DTSTART:00010101T000000Z",
        "DTEND:20260401T100000Z", "DTEND;TZID=Z:99991231T235959", "DURATION:P1D", "DURATION:P9999W", "RRULE:FREQ=DAILY;COUNT=3",
        "RRULE:FREQ=HOURLY", "RDATE:20260402,x", "EXDATE:20260401T090000Z", "RECURRENCE-ID:20260401T090000Z",
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20260401T090000Z", "TRIGGER:-PT15M", "TRIGGER;RELATED=END:P3D", "REPEAT:2",
        "TRIGGER:20260401T090000Z", "STATUS:CANCELLED", "SEQUENCE:2", " folded", "", ";;;:::", "X-WR-TIMEZONE:Asia/Tokyo",
        'ATTENDEE;CN="a:b";X=\\:mailto:x', "DTSTART;=:", 'TZID;":x', "\x00", "ACKNOWLEDGED:20260401T090000Z",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=60), st.booleans())
def test_whatever_the_lines_are_nothing_but_our_own_errors_comes(lines, framed):
    text = "\n".join(lines)
    try:
        asked = ask(
            f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{text}\nEND:VEVENT\nEND:VCALENDAR" if framed else text, overdue="send"
        )
    except RemindersError:
        return
    for reject in asked.rejects:
        assert 1 <= reject.line <= len(lines) + 4


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_whatever_the_bytes_are_nothing_but_our_own_errors_comes(junk):
    ask(b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:a\nDTSTART:20260401T090000Z\n" + junk + b"\nEND:VEVENT\nEND:VCALENDAR\n")


RULES = st.sampled_from(
    [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO,TH",
        "FREQ=MONTHLY;BYDAY=-1SU",
        "FREQ=MONTHLY;BYMONTHDAY=31",
        "FREQ=WEEKLY;INTERVAL=2",
    ]
)


@settings(max_examples=60, deadline=None)
@given(
    rule=RULES,
    start=st.datetimes(datetime(2025, 1, 1), datetime(2026, 6, 1)).map(
        lambda at: at.replace(hour=12, second=0, microsecond=0)
    ),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    left_out=st.sets(st.integers(0, 20), max_size=4),
)
def test_series_agree_with_an_independent_library(rule, start, zone, left_out):
    """At noon, when no clocks change. The first is given by the rule in neither or both."""
    lines = [f"DTSTART;TZID={zone}:{start:%Y%m%dT%H%M%S}", f"RRULE:{rule}"]
    lines += [f"EXDATE;TZID={zone}:{start + timedelta(days=day):%Y%m%dT%H%M%S}" for day in sorted(left_out)]
    text = calendar(event(*lines, "DTSTAMP:20250101T000000Z"))
    begin, end = datetime(2026, 2, 28, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    found = recurring_ical_events.of(icalendar.Calendar.from_ical(text)).between(begin, end)
    expected = sorted(f"{each.start.astimezone(UTC):%Y-%m-%dT%H:%M}" for each in found)
    assert due(ask(text, horizon=end - NOW)) == expected

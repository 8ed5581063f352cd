"""Messages about single events that come late, twice or out of order (RFC 5546 section 2.1.5)."""

import pytest

from calendar_files import calendar, event
from integration.calendars.test_import_calendar import invoke, ledger, run  # noqa: F401 - fixtures
from integration.import_files import count

SERIES = ("DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=3")
ALL = ["04-01T09:00", "04-02T09:00", "04-03T09:00"]


@pytest.fixture
def told(run):  # noqa: F811 - the fixture
    """Import one message, of an event unless `more` makes it a turn of it."""

    def tell(method, sequence, *more, start="20260401T090000Z", stamp="20260101T000000Z", uid="one"):
        lines = (f"SEQUENCE:{sequence}", f"DTSTAMP:{stamp}", *more)
        if not any(line.startswith("DTSTART") for line in more):
            lines += (f"DTSTART:{start}",)
        return run(calendar(event(*lines, uid=uid), head=(f"METHOD:{method}", "X-WR-CALNAME:mail")))

    return tell


def turn(of, start=None):
    return (f"RECURRENCE-ID:202604{of}T090000Z", f"DTSTART:202604{start or of + 'T090000'}Z")


def test_an_older_request_does_not_bring_a_cancelled_event_back(told, ledger):  # noqa: F811
    assert told("REQUEST", 3) == {"scheduled": 1}
    assert told("CANCEL", 5, "STATUS:CANCELLED") == {"skipped": 1, "cancelled": 1}
    for sequence in (3, 4, 5):
        assert told("REQUEST", sequence) == {"skipped": 1}
        assert ledger.due() == []
    assert told("REQUEST", 6, start="20260402T090000Z") == {"moved": 1}
    assert ledger.due() == ["04-02T09:00"]
    assert told("CANCEL", 5) == {"skipped": 1}
    assert ledger.due() == ["04-02T09:00"]


def test_the_series_old_request_does_not_bring_a_cancelled_turn_back(told, ledger):  # noqa: F811
    assert told("REQUEST", 1, *SERIES) == {"scheduled": 3}
    assert told("CANCEL", 2, *turn("02")) == {"skipped": 1, "cancelled": 1}
    assert told("REQUEST", 1, *SERIES) == {"existing": 2, "skipped": 1}
    assert ledger.due() == [ALL[0], ALL[2]]
    assert told("REQUEST", 3, *SERIES) == {"existing": 2, "moved": 1}
    assert ledger.due() == ALL


def test_a_turn_that_was_moved_stays_where_it_is_when_the_series_old_request_comes_again(told, ledger):  # noqa: F811
    told("REQUEST", 1, *SERIES)
    assert told("REQUEST", 2, *turn("02", "02T150000")) == {"moved": 1}
    assert told("REQUEST", 1, *SERIES) == {"existing": 2, "skipped": 1}
    assert told("REQUEST", 1, *turn("02", "02T170000")) == {"skipped": 1}
    assert ledger.due() == [ALL[0], "04-02T15:00", ALL[2]]


def test_an_older_request_of_one_turn_does_not_bring_it_back_to_a_cancelled_series(told, ledger):  # noqa: F811
    told("REQUEST", 1, *SERIES)
    told("REQUEST", 2, *turn("02", "02T150000"))
    assert told("CANCEL", 4, *SERIES) == {"skipped": 1, "cancelled": 3}
    assert told("REQUEST", 2, *turn("02", "02T150000")) == {"skipped": 1}
    assert told("REQUEST", 3, *turn("03")) == {"skipped": 1}
    assert ledger.due() == []


def test_an_old_request_adds_no_turns_that_a_newer_one_no_longer_has(told, ledger):  # noqa: F811
    told("REQUEST", 2, "DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=2")
    assert told("REQUEST", 1, *SERIES) == {"skipped": 3}
    assert ledger.due() == ALL[:2]


def test_one_turn_may_have_a_lower_number_than_another(told, ledger):  # noqa: F811
    told("REQUEST", 1, *SERIES)
    told("REQUEST", 5, *turn("02", "02T150000"))
    assert told("REQUEST", 1, *turn("03", "03T160000")) == {"moved": 1}
    assert ledger.due() == [ALL[0], "04-02T15:00", "04-03T16:00"]


def test_all_later_turns_that_were_cancelled_stay_so(told, ledger):  # noqa: F811
    told("REQUEST", 1, *SERIES)
    later = ("RECURRENCE-ID;RANGE=THISANDFUTURE:20260402T090000Z", "DTSTART:20260402T090000Z")
    assert told("CANCEL", 2, *later) == {"skipped": 1, "cancelled": 2}
    assert told("REQUEST", 1, *SERIES) == {"existing": 1, "skipped": 2}
    assert told("REQUEST", 1, *turn("03")) == {"skipped": 1}
    assert ledger.due() == ALL[:1]


def test_of_the_same_sequence_the_later_stamp_counts(told, ledger):  # noqa: F811
    told("REQUEST", 1, stamp="20260102T000000Z")
    assert told("REQUEST", 1, start="20260402T090000Z", stamp="20260101T235959Z") == {"skipped": 1}
    assert told("CANCEL", 1, stamp="20260101T235959Z") == {"skipped": 1}
    assert ledger.due() == ALL[:1]
    assert told("REQUEST", 1, start="20260402T090000Z", stamp="20260102T000001Z") == {"moved": 1}
    assert told("CANCEL", 1, stamp="20260103T000000Z") == {"skipped": 1, "cancelled": 1}
    assert told("REQUEST", 1, stamp="20260102T000001Z") == {"skipped": 1}
    assert ledger.due() == []
    assert told("REQUEST", 1, stamp="20260104T000000Z") == {"moved": 1}
    assert ledger.due() == ALL[:1]


@pytest.mark.parametrize("stamp", ["20260101T000000Z", "", "yesterday"])
def test_of_the_same_revision_the_cancellation_counts(told, ledger, stamp):  # noqa: F811
    told("REQUEST", 0, stamp=stamp)
    assert told("CANCEL", 0, stamp=stamp) == {"skipped": 1, "cancelled": 1}
    assert told("REQUEST", 0, stamp=stamp) == {"skipped": 1}
    assert ledger.due() == []


def test_a_cancellation_may_come_before_what_it_cancels(told, ledger):  # noqa: F811
    assert told("CANCEL", 2) == {"skipped": 1}
    assert told("REQUEST", 1) == {"skipped": 1}
    assert ledger.due() == []
    assert told("REQUEST", 1, uid="two") == {"scheduled": 1}


def test_a_turn_beside_its_series_may_have_a_lower_number(run, ledger):  # noqa: F811
    master = event(*SERIES, "SEQUENCE:3", uid="one")
    for hour, expected in (("15", {"scheduled": 3}), ("16", {"moved": 1, "existing": 2})):
        single = event(*turn("02", f"02T{hour}0000"), "SEQUENCE:1", uid="one")
        assert run(calendar(master, single, head=("METHOD:REQUEST",))) == expected
    assert ledger.due() == [ALL[0], "04-02T16:00", ALL[2]]


def test_a_whole_calendar_counts_as_it_is_and_an_older_message_does_not_undo_it(run, told, ledger):  # noqa: F811
    run(calendar(event(*SERIES, "SEQUENCE:4", uid="one"), head=("X-WR-CALNAME:mail",)))
    assert told("REQUEST", 3, "DTSTART:20260401T090000Z", "RRULE:FREQ=DAILY;COUNT=5") == {"skipped": 5}
    assert told("CANCEL", 5) == {"skipped": 1, "cancelled": 3}
    assert run(calendar(event(*SERIES, "SEQUENCE:4", uid="one"), head=("X-WR-CALNAME:mail",))) == {"moved": 3}
    assert ledger.due() == ALL


def test_nothing_is_remembered_of_events_that_were_never_revised_and_nothing_twice(run, told, ledger, database):  # noqa: F811
    run(calendar(event(*SERIES, uid="one"), event(SERIES[0], uid="two"), head=("X-WR-CALNAME:mail",)))
    assert count(database, "calendar_revisions") == 0
    told("REQUEST", 1, *SERIES)
    assert count(database, "calendar_revisions") == 1
    before = ledger.written()
    told("REQUEST", 1, *SERIES)
    assert ledger.written() == before

"""Instants as text: what is read, and everything that is refused."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.calendar.instants import instant_text, parse_instant
from reminders.domain.errors import InvalidInput

HALF_PAST = datetime(2026, 5, 1, 9, 30, tzinfo=UTC).replace(tzinfo=None)
READ = [
    ("2026-05-01T09:30", HALF_PAST),
    ("2026-05-01 09:30", HALF_PAST),
    ("2026-05-01T09:30:15", HALF_PAST.replace(second=15)),
    ("2026-05-01T09:30:15.5", HALF_PAST.replace(second=15, microsecond=500_000)),
    ("2026-05-01 09:30:15.123456Z", HALF_PAST.replace(second=15, microsecond=123_456, tzinfo=UTC)),
    ("2026-05-01T09:30Z", HALF_PAST.replace(tzinfo=UTC)),
    ("2026-05-01T09:30+05:30", HALF_PAST.replace(tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    ("2026-05-01T09:30:00-0800", HALF_PAST.replace(tzinfo=timezone(-timedelta(hours=8)))),
    ("2026-05-01T09:30-00:00", HALF_PAST.replace(tzinfo=UTC)),
    ("2028-02-29T23:59:59Z", datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)),
    ("0001-01-01T00:00+14:00", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
    ("9999-12-31T23:59:59.999999", datetime.max.replace(tzinfo=UTC).replace(tzinfo=None)),
]
REFUSED = [
    "", " ", "2026-05-01", "20260501T0930", "2026-05-01T0930", "2026-W18-5T09:30", "2026-121T09:30", "2026-05-01T09",
    "2026-05-01T24:00", "2026-05-01T09:60", "2026-05-01T09:30:60", "2026-05-01T09:30:15.", "2026-05-01T09:30:15,5",
    "2026-05-01T09:30:15.1234567", "2026-05-01T9:30", "2026-5-1T09:30", "2026-05-01t09:30", "2026-05-01T09:30z",
    "2026-05-01x09:30", "2026-05-01T09:30 Z", " 2026-05-01T09:30", "2026-05-01T09:30\n", "2026-05-01T09:30+5",
    "2026-05-01T09:30+05", "2026-05-01T09:30+24:00", "2026-05-01T09:30+05:60", "2026-05-01T09:30+05:30:15",
    "2026-05-01T09:30Europe/Berlin", "0000-05-01T09:30", "-2026-05-01T09:30", "12026-05-01T09:30", "2026-13-01T09:30",
    "2026-00-01T09:30", "2026-02-29T09:30", "2026-04-31T09:30", "infinity", "-infinity", "now", "tomorrow", "1777627800",
    "\u0662\u0660\u0662\u0666-05-01T09:30", "2026-05-01T0\u0669:30", "2026\u201305\u201301T09:30", "2026-05-01T09:30\0",
    "2026-05-01T09:30\udcff", "9" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), READ, ids=[text for text, _ in READ])
def test_what_is_read(text, meant):
    found = parse_instant(text)
    assert (found, found.tzinfo is None) == (meant, meant.tzinfo is None)


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_in_one_short_line(text):
    with pytest.raises(InvalidInput) as refused:
        parse_instant(text)
    assert refused.value.field == "due_at"
    assert len(str(refused.value)) < 250
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("value", [None, 5, HALF_PAST, b"2026-05-01T09:30"])
def test_what_is_no_text(value):
    with pytest.raises(InvalidInput, match=r"^expires_at: must be text"):
        parse_instant(value, "expires_at")


@given(st.text(max_size=40))
def test_nothing_but_a_datetime_or_our_error_comes_out(text):
    with suppress(InvalidInput):
        assert isinstance(parse_instant(text), datetime)


@given(st.datetimes(timezones=st.just(UTC) | st.none()))
def test_what_we_and_python_write_is_read_back(instant):
    assert parse_instant(instant.isoformat()) == instant
    if instant.tzinfo is not None:
        assert parse_instant(instant_text(instant)) == instant


def test_our_own_form_is_utc_with_a_z():
    there = datetime(2026, 5, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))
    assert instant_text(there) == "2026-05-01T07:30:00Z"
    assert instant_text(there.replace(microsecond=5)) == "2026-05-01T07:30:00.000005Z"

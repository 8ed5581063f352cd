"""Two lists of who is told what and when, compared; and a previous system's file read for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest

from reminders.domain.comparison import compare
from reminders.domain.errors import InvalidInput, RemindersError
from reminders.intake.lines import LONGEST_RECORD, Lines
from reminders.intake.previous import read_previous

START = datetime(2030, 5, 1, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(*minutes, key=("order-1",)):
    return [(key, START + each * MINUTE) for each in minutes]


def counts(found):
    return found.matched, found.differing, found.missing_here, found.missing_there


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (at(0, 10), at(0, 10), (2, 0, 0, 0)),
        (at(0), at(1), (1, 0, 0, 0)),
        (at(0), at(2), (0, 1, 0, 0)),
        (at(0, 10, 20), at(10, 20), (2, 0, 0, 1)),
        (at(10, 20), at(0, 10, 20), (2, 0, 1, 0)),
        (at(0, 10), at(5), (0, 1, 0, 1)),
        ([], at(0), (0, 0, 1, 0)),
        (at(0), at(0, key=("order-2",)), (0, 0, 1, 1)),
        (at(0, 0), at(0), (1, 0, 0, 1)),
        ([], [], (0, 0, 0, 0)),
    ],
)
def test_what_is_near_enough_matches_and_the_rest_is_counted(here, there, expected):
    found = compare(here, there, MINUTE, 10)
    assert counts(found) == expected
    assert (found.here, found.there) == (len(here), len(there))


def test_differences_say_by_how_much_and_are_bounded():
    here = at(*range(0, 300, 30))
    there = at(*range(10, 310, 30))
    found = compare(here, there, MINUTE, 3)
    assert [each.seconds for each in found.differences] == [-600.0] * 3
    assert found.differing == 10
    (lacking,) = compare([], at(0), MINUTE, 3).differences
    assert (lacking.what, lacking.here, lacking.there, lacking.seconds) == ("missing_here", None, START, None)


def previous(text):
    return read_previous(Lines(BytesIO(text.encode()), "previous"))


def test_a_csv_file_with_columns_of_its_own():
    found = previous(
        "id,reference,user_id,channel,sent_at,zone,address\n"
        "1,order-1,ada,email,2030-05-01T09:00:00Z,,a@b.example\n"
        "2,order-2,bea,email,2030-05-01 11:00,Europe/Berlin,c@d.example\n"
    )
    assert (found.parts, found.instant, found.rejects) == (("reference", "user_id", "channel"), "sent_at", [])
    assert found.entries == [(("order-1", "ada", "email"), START), (("order-2", "bea", "email"), START)]


def test_json_lines_and_what_cannot_be_read():
    found = previous(
        '{"user_id": "ada", "due_at": "2030-05-01T09:00:00Z", "body": {"x": 1}}\n'
        '{"user_id": "bea", "due_at": "2030-05-01 09:00"}\n'
        "no json\n"
        '{"user_id": "cid"}\n'
        '{"user_id": "dan", "due_at": "2030-05-01 09:00", "zone": "Mars/Olympus"}\n'
    )
    assert (found.parts, found.instant, found.read) == (("user_id",), "due_at", 5)
    assert found.entries == [(("ada",), START)]
    assert [(each.line, each.field) for each in found.rejects] == [
        (2, "due_at"),
        (3, None),
        (4, "due_at"),
        (5, "zone"),
    ]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id,sent_at\n1,2030-05-01T09:00Z\n", "reference"),
        ("user_id,id\nada,1\n", "sent_at"),
        ('{"x": 1}\n', "reference"),
    ],
)
def test_a_file_that_cannot_be_compared_is_refused_by_name(text, field):
    with pytest.raises(InvalidInput) as error:
        previous(text)
    assert error.value.field == field
    assert "has no column" in error.value.reason


@pytest.mark.parametrize("space", ["", " ", "\ufeff"])
def test_an_array_is_refused_as_what_it_is(space):
    with pytest.raises(RemindersError, match=r"previous begins with \[ like a JSON array; JSON Lines is needed"):
        previous(space + '[{"reference": "order-1", "sent_at": "2030-05-01T09:00:00Z"}]\n')


def test_a_first_line_of_json_that_is_too_long_is_one_line_that_cannot_be_read():
    long = f'{{"reference": "{"x" * LONGEST_RECORD}", "sent_at": "2030-05-01T09:00:00Z"}}\n'
    found = previous(long + '{"reference": "order-1", "sent_at": "2030-05-01T09:00:00Z"}\n')
    assert found.entries == [(("order-1",), START)]
    assert [(each.line, each.reason) for each in found.rejects] == [(1, f"is longer than {LONGEST_RECORD:,} bytes")]


@pytest.mark.parametrize("name", ["reference", "sent_at", "zone"])
def test_a_column_that_is_given_twice_is_refused(name):
    with pytest.raises(InvalidInput, match="given twice") as error:
        previous(f"reference,sent_at,zone,{name}\norder-1,2030-05-01T09:00Z,UTC,x\n")
    assert error.value.field == name
    assert previous("reference,sent_at,note,note\norder-1,2030-05-01T09:00Z,a,b\n").entries == [(("order-1",), START)]


def test_a_reference_of_json_is_text_or_a_whole_number_and_nothing_else():
    odd = ['{"a": 1}', "[1]", "true", "1.5", "1e2"]
    lines = [f'{{"reference": {each}, "sent_at": "2030-05-01T09:00Z"}}\n' for each in ['"7"', "7", *odd]]
    found = previous("".join(lines))
    assert found.entries == [(("7",), START)] * 2
    assert [(each.line, each.field) for each in found.rejects] == [(3 + n, "reference") for n in range(len(odd))]


def test_a_file_without_records_is_an_empty_one():
    assert previous("user_id,sent_at\n").entries == []

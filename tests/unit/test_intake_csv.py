"""CSV records: the header, quoting, what is broken, and what goes on after it."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reminders.domain.errors import InvalidInput, RemindersError
from reminders.intake.csv_records import read_csv
from reminders.intake.lines import LONGEST_RECORD, Lines
from reminders.intake.records import Reject

HEADER = "tenant_id,user_id,kind,channel,destination,due_at,zone,reference,data\n"
NAMES = HEADER.strip().split(",")
ROW = "acme,u{},k,log,somewhere,2090-05-01 09:00,Europe/Berlin,r{},\n"


def read(text: str | bytes):
    raw = text if isinstance(text, bytes) else text.encode()
    return list(read_csv(Lines(io.BytesIO(raw), "some.csv")))


def summary(records):
    """Lines of rejects negative; of records positive."""
    return [-r.line if isinstance(r, Reject) else r[0] for r in records]


def rows(*numbers: int) -> str:
    return "".join(ROW.format(n, n) for n in numbers)


def test_values_by_name_and_empty_ones_left_out():
    ((line, values),) = read(HEADER + rows(1))
    assert line == 2
    assert values == {
        "tenant_id": "acme",
        "user_id": "u1",
        "kind": "k",
        "channel": "log",
        "destination": "somewhere",
        "due_at": "2090-05-01 09:00",
        "zone": "Europe/Berlin",
        "reference": "r1",
    }


def test_blanks_around_a_columns_name_are_left_out_and_those_of_a_value_kept():
    assert read(HEADER.replace(",", " , ") + rows(1)) == read(HEADER + rows(1))
    assert read(HEADER.replace(",", ",\t") + rows(1).replace("u1", " u1 "))[0][1]["user_id"] == " u1 "


def test_data_is_read_as_json():
    ((_, values),) = read(HEADER + 'a,b,c,log,d,e,f,g,"{""n"": [1, null], ""ü"": ""x\\ny""}"\n')
    assert values["data"] == {"n": [1, None], "ü": "x\ny"}


def test_mark_crlf_and_blank_lines():
    text = (
        "\ufeff"
        + HEADER.replace("\n", "\r\n")
        + "\r\n"
        + rows(1).replace("\n", "\r\n")
        + "  \r\n,,,,,,,,\r\n"
        + rows(2)
    )
    assert summary(read(text)) == [3, 6]


def test_a_quoted_newline_is_part_of_the_value_and_counts_as_a_line():
    records = read(HEADER + 'a,b,c,log,d,e,f,g,"{""n"":\r\n\n1}"\n' + rows(2))
    assert records[0][1]["data"] == {"n": 1}
    assert summary(records) == [2, 5]


@pytest.mark.parametrize(
    ("header", "field", "reason"),
    [
        (HEADER.replace("user_id", "usr_id"), "usr_id", "did you mean user_id?"),
        (HEADER.replace("zone", "Timezone"), "Timezone", "did you mean zone?"),
        (HEADER.replace("zone", "colour"), "colour", "is no column of a reminder. There are tenant_id, "),
        (HEADER.replace("kind,", ""), "kind", "has no column; required are tenant_id, user_id, kind"),
        (HEADER.replace("zone", "kind"), "kind", "given twice"),
        (HEADER.replace(",", ";"), "tenant_id;user_id;kind;channel;destination;due_at;zone;reference", "by commas"),
        (HEADER.replace("zone", "z\x00ne"), "'z\\x00ne'", "did you mean zone?"),
    ],
)
def test_a_wrong_header_is_an_error_before_any_record(header, field, reason):
    with pytest.raises(InvalidInput) as raised:
        read_csv(Lines(io.BytesIO((header + rows(1)).encode()), "some.csv"))
    assert raised.value.field == field
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "is empty"),
        (b'tenant_id,"user_id\n', "Line 1, which must name the columns, opens a quote"),
        (b"\ntenant\xff_id\n", "Line 2, which must name the columns, is no UTF-8 text"),
        (b"x" * (LONGEST_RECORD + 5), "Line 1, which must name the columns, is longer than"),
        (b"tenant_id,user_id\ra,b\r", "Line 1, which must name the columns, holds a carriage return"),
    ],
)
def test_no_header_at_all(raw, message):
    with pytest.raises(RemindersError, match=message):
        read(raw)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("a,b,c\n", "has 3 values, but the header names 9 columns"),
        ("a,b,c,log,d,e,f,g,,\n", "has 10 values, but the header names 9 columns"),
        ('a,"b"x,c,log,d,e,f,g,\n', "has text after a closing quote; a quote inside a quoted value is written twice"),
        ('a,"b,c,log,d,e,f,g,\n', "opens a quote that is never closed; the file may be cut off"),
        ("a,b\rc,c,log,d,e,f,g,\n", "holds a carriage return that ends no line"),
        ("a" * LONGEST_RECORD + "\n", f"is longer than {LONGEST_RECORD:,} bytes"),
    ],
)
def test_a_broken_line_is_rejected_alone(broken, reason):
    records = read(HEADER + rows(1) + broken + rows(3, 4))
    assert summary(records) == [2, -3, 4, 5]
    assert records[1].field is None
    assert records[1].reason.startswith(reason)


def test_an_open_quote_takes_no_later_record_with_it():
    data = 'a,b,c,log,d,e,f,g,"{""n"": 1}"\n'
    records = read(HEADER + 'a,"b,c,log,d,e,f,g,\n' + rows(3) + data + rows(5))
    assert summary(records) == [-2, 3, 4, 5]
    assert records[0].reason.startswith("has text after a closing quote")


def test_an_open_quote_is_given_up_after_the_longest_record():
    many = rows(*range(3, 5003))
    assert len(many) > LONGEST_RECORD
    records = read(HEADER + 'a,"b,c,log,d,e,f,g,\n' + many)
    assert summary(records) == [-2, *range(3, 5003)]
    assert records[0].reason == f"is longer than {LONGEST_RECORD:,} characters; a closing quote may be missing"


def test_a_last_line_cut_off_is_rejected():
    whole = HEADER + rows(1) + 'a,b,c,log,d,e,f,g,"{""n"": 1}"'
    assert summary(read(whole)) == [2, 3]
    assert [summary(read(whole[:-cut]))[-1] for cut in (1, 5, 10, 20)] == [-3, -3, -3, -3]


def test_bad_utf8_inside_a_quoted_newline_is_one_reject():
    raw = HEADER.encode() + b'a,b,c,log,d,e,f,g,"{""n"":\n""\xff""}"\n' + rows(4).encode()
    records = read(raw)
    assert summary(records) == [-2, 4]
    assert records[0].reason == "is no UTF-8 text (byte 0xFF at position 3 of line 3)"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[1]", "must be a JSON object, not an array"),
        ('"{""a"":1,""a"":2}"', "has the key 'a' twice"),
        ('"{""a"":NaN}"', "holds NaN, which JSON does not have"),
        ("{oops}", "is no JSON: Expecting property name enclosed in double quotes (character 2)"),
        ('"{""a"":""\x00""}"', "is no JSON: Invalid control character at (character 7)"),
    ],
)
def test_data_that_is_no_json_object(data, reason):
    (record,) = read(HEADER + f"a,b,c,log,d,e,f,g,{data}\n")
    assert record == Reject(2, "data", reason)


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


@given(st.lists(st.lists(CELL, min_size=8, max_size=8), max_size=8), st.booleans())
@settings(deadline=None)
def test_what_a_csv_writer_writes_is_read_back(table, crlf):
    out = io.StringIO()
    # Python's writer leaves a lone carriage return bare unless it is told to quote everything, or to end lines with it.
    writer = (
        csv.writer(out, lineterminator="\r\n") if crlf else csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    )
    writer.writerow(NAMES[:8])
    starts = []
    for row in table:
        starts.append(out.getvalue().count("\n") + 1)
        writer.writerow(row)
    expected = [
        (start, {name: value for name, value in zip(NAMES, row, strict=False) if value})
        for start, row in zip(starts, table, strict=True)
        if any(row)
    ]
    assert read(out.getvalue()) == expected


@given(st.binary(max_size=300), st.binary(max_size=300))
@settings(deadline=None)
def test_no_bytes_end_the_reading(before, after):
    """Whatever stands around it, every record begins on a line of its own and none is told of twice."""
    records = read(HEADER.encode() + before + b"\n" + rows(0).encode() + after)
    told = [abs(line) for line in summary(records)]
    assert told == sorted(set(told))

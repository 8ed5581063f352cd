"""JSON Lines, and JSON that all its readers understand alike."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reminders.intake.jsonl_records import read_jsonl
from reminders.intake.lines import Lines
from reminders.intake.records import Reject
from reminders.intake.strict_json import read_object


def read(text: str | bytes):
    raw = text if isinstance(text, bytes) else text.encode()
    return list(read_jsonl(Lines(io.BytesIO(raw), "some.jsonl")))


def test_objects_with_their_lines():
    text = (
        '\ufeff{"tenant_id": "a", "data": {"n": 1}}\r\n\n \t \n{"tenant_id": "b", "zone": null, "slot": "", "data": {}}'
    )
    assert read(text) == [(1, {"tenant_id": "a", "data": {"n": 1}}), (4, {"tenant_id": "b", "data": {}})]


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        (b'{"usr_id": 1}', "usr_id", "is no column of a reminder; did you mean user_id?"),
        (b'{" user_id": 1}', "' user_id'", "is no column of a reminder; did you mean user_id?"),
        (b'{"tenant_id": "a", "tenant_id": "b"}', None, "has the key 'tenant_id' twice"),
        (b'{"data": {"a": {"b": 1, "b": 1}}}', None, "has the key 'b' twice"),
        (b'{"data": {"a": -Infinity}}', None, "holds -Infinity, which JSON does not have"),
        (b'["a"]', None, "must be a JSON object, not an array"),
        (b'"a"', None, "must be a JSON object, not text"),
        (b"7", None, "must be a JSON object, not a number"),
        (b"true", None, "must be a JSON object, not true or false"),
        (b"null", None, "must be a JSON object, not null"),
        (b'{"tenant_id": "a"', None, "is no JSON: Expecting ',' delimiter (character 18)"),
        (b'{"tenant_id": "a"} {}', None, "is no JSON: something follows the object (character 19)"),
        (b'{"tenant_id": "\xff"}', None, "is no UTF-8 text (byte 0xFF at position 16 of line 2)"),
        (b"\x00", None, "is no JSON: Expecting value (character 1)"),
        (b'{"data": ' + b"[" * 60_000, None, "is nested too deep"),
        (b'{"data": ' + b"9" * 5000 + b"}", None, "holds a number with too many digits"),
    ],
)
def test_a_bad_line_is_rejected_alone(line, field, reason):
    good = b'{"tenant_id": "a"}\n'
    first, bad, last = read(good + line + b"\n" + good)
    assert (first[0], last[0]) == (1, 3)
    assert (bad.line, bad.field) == (2, field)
    assert bad.reason.startswith(reason)


def test_a_last_line_cut_off_is_rejected():
    whole = '{"tenant_id": "a"}\n{"tenant_id": "b", "data": {"n": 12}}'
    assert [isinstance(record, Reject) for record in read(whole)] == [False, False]
    for cut in range(1, 30):
        first, last = read(whole[:-cut])
        assert first[0] == 1
        assert (last.line, last.field) == (2, None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
@settings(deadline=None)
def test_every_object_is_read_as_the_standard_library_reads_it(value):
    assert read_object(f" {json.dumps(value)}\n") == value


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_gives_an_object_or_a_reason(text):
    reason = ""
    try:
        value = read_object(text)
    except ValueError as error:
        reason = str(error)
    else:
        assert value == json.loads(text)
    assert reason == "" or reason.startswith(("is ", "has ", "holds ", "must "))

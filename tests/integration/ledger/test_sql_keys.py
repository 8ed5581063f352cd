"""Keys and canonical JSON are the same bytes whether Python makes them or SQL, for anything that passes the door."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import RFC_4122, UUID

import psycopg2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reminders.domain import identity
from reminders.domain.errors import InvalidInput
from reminders.domain.request import MAX_DATA_DEPTH, canonical_data

# Everything that JSON of Postgres can hold: no NUL, no lone surrogates.
STORABLE = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
TEXT = st.text(STORABLE, max_size=20) | st.text(alphabet='aB\x01\x1f\x7f\x85"\\/\b\f\n\r\té\u2028\uffff😀𐀀', max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
EDGES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 1e15, 1e16, 1e17, 123456789012345680.0, 1e22, 1e23, 0.1 + 0.2, 1e-4, 1e-5, 9.999e-5, 5e-324,
     -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, 9223372036854775807, -(2**63), 2**63,
     2**64, 10**19, 10**22, 10**23, 10**308]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | EDGES | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
INSTANT = st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31, 23, 59, 59, 999999), timezones=st.just(UTC))
SETTINGS = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def outcome(data):
    """Its canonical form, or None and the field that is refused."""
    try:
        return canonical_data(data), None
    except InvalidInput as error:
        return None, error.field


@pytest.fixture
def ask(world):
    """The one value of a query, on a connection that stays open; an error leaves it usable."""
    connection = world.connect()
    connection.autocommit = True

    def asked(query, *arguments):
        with connection.cursor() as cursor:
            cursor.execute(query, arguments)
            (value,) = cursor.fetchone()
            return bytes(value) if isinstance(value, memoryview) else value

    return asked


@SETTINGS
@given(parts=st.lists(TEXT | st.none(), min_size=1, max_size=6))
@example(parts=["", None, "a" * 70_000])
def test_a_digest(ask, parts):
    assert ask("SELECT reminders.digest(VARIADIC %s::text[])", parts) == identity.digest(*parts)


@SETTINGS
@given(raw=st.binary(min_size=32, max_size=32), version=st.integers(1, 2**31 - 1))
def test_a_delivery_key(ask, raw, version):
    assert ask("SELECT reminders.delivery_key(%s, %s)", raw, version) == identity.delivery_key(raw, version)


@SETTINGS
@given(tenant=TEXT, channel=TEXT, address=TEXT)
def test_a_destinations_id(ask, tenant, channel, address):
    wanted = identity.destination_id(tenant, channel, address)
    assert ask("SELECT reminders.destination_id(%s, %s, %s)", tenant, channel, address) == str(wanted)


@SETTINGS
@given(instant=INSTANT)
def test_an_instant_as_text(ask, instant):
    assert ask("SELECT reminders.instant_text(%s)", instant) == instant.isoformat()


@SETTINGS
@given(data=st.dictionaries(TEXT, JSON, max_size=6))
@example(data={"é": 1, "e": 2, "ﬀ": 3, "𐀀": 4, "\uffff": 5, "Z": 6, "": 7})
@example(data={"a": [], "b": {}, "c": [{}, [[]]]})
def test_data(ask, data):
    """Sent as the application's own library writes it, and as Python's would with every letter escaped."""
    wanted, field = outcome(data)
    if wanted is None:
        with pytest.raises(psycopg2.DataError) as caught:
            ask("SELECT reminders.canonical_data(%s)", json.dumps(data))
        assert caught.value.diag.column_name == field
        return
    assert ask("SELECT reminders.canonical_data(%s)", json.dumps(data)) == wanted
    assert ask("SELECT reminders.canonical_data(%s)", json.dumps(data, ensure_ascii=False)) == wanted
    assert json.loads(wanted, parse_int=float) == json.loads(json.dumps(data), parse_int=float)
    assert canonical_data(json.loads(wanted)) == wanted


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1", "1"), ("1.0", "1"), ("1e2", "100"), ("-0.0", "0"), ("0.10", "0.1"), ("1.50e1", "15"), ("1e-7", "0.0000001"),
        ("100", "100"), ("9223372036854775807", "9223372036854775807"), ("1E400", None), ("1e-400", None),
        ("9223372036854775808", None), ("0.123456789012345678", None), ("19.99", "19.99"),
        ("10000000000000000000", "10000000000000000000"), ("1.7976931348623158e308", None), ("4e-324", None), ("1e23", "1" + "0" * 23),
    ],
)  # fmt: skip
def test_a_number_has_one_form_however_it_is_written(ask, written, canonical):
    if canonical is None:
        with pytest.raises(psycopg2.DataError, match=r"data\.n is a number that neither"):
            ask("SELECT reminders.canonical_data(%s)", f'{{"n": {written}}}')
        return
    assert ask("SELECT reminders.canonical_data(%s)", f'{{"n": {written}}}') == f'{{"n":{canonical}}}'
    assert canonical_data({"n": json.loads(written)}) == f'{{"n":{canonical}}}'


def test_numbers_are_the_same_whatever_the_session_shows_of_floats(ask):
    ask("SELECT set_config('extra_float_digits', '-15', false)")
    assert ask("""SELECT reminders.canonical_data('{"n": 0.30000000000000004}')""") == '{"n":0.30000000000000004}'


@pytest.mark.parametrize("levels", [MAX_DATA_DEPTH - 1, MAX_DATA_DEPTH, MAX_DATA_DEPTH + 1])
@pytest.mark.parametrize("innermost", [{}, [], 1, "a"], ids=str)
def test_depth_is_counted_alike(ask, levels, innermost):
    data = innermost
    for _ in range(levels - 1):
        data = {"a": data}
    if not isinstance(data, dict):
        return
    wanted, _ = outcome(data)
    if wanted is None:
        with pytest.raises(psycopg2.DataError, match="data: is nested deeper than 16 levels"):
            ask("SELECT reminders.canonical_data(%s)", json.dumps(data))
    else:
        assert ask("SELECT reminders.canonical_data(%s)", json.dumps(data)) == wanted


@pytest.mark.parametrize(
    ("data", "size"),
    [
        ({"a": "x" * 8184}, None),
        ({"a": "x" * 8185}, "8,193"),
        ({"é" * 4090: 1}, "8,186"),
        ({"\x01" * 2000: 1}, "12,006"),
        ({"a": "x" * 65_528}, "65,536"),
        ({"a": "x" * 65_529}, "more than 65,536"),
        ({"a": "x" * 70_000}, "more than 65,536"),
        ({"a": [1] * 32_000}, "64,007"),
        ({"a": "x" * 900_000}, "more than 65,536"),
    ],
    ids=["fits", "too long", "umlauts", "escapes", "last counted", "not counted", "more", "many", "huge"],
)
def test_size_is_counted_alike(ask, data, size):
    wanted, _ = outcome(data)
    if size is None or wanted is not None:
        assert ask("SELECT reminders.canonical_data(%s)", json.dumps(data)) == wanted
        return
    words = f"data: has {size} bytes as JSON; at most 8,192 are allowed"
    with pytest.raises(InvalidInput, match=words):
        canonical_data(data)
    with pytest.raises(psycopg2.DataError, match=words):
        ask("SELECT reminders.canonical_data(%s)", json.dumps(data))


def test_ids_are_of_version_7_and_in_the_order_of_time(ask):
    before = identity.uuid7()
    made = [ask("SELECT reminders.uuid7()") for _ in range(3)]
    after = identity.uuid7()
    for each in made:
        assert (each[14], each[19] in "89ab") == ("7", True)
        assert before.int >> 80 <= int(each.replace("-", ""), 16) >> 80 <= after.int >> 80
    assert len(set(made)) == 3


def test_ids_of_sql_are_in_the_order_of_their_making_within_a_millisecond_too(world):
    # Some microseconds of work between two of them: the shortest sleep takes a millisecond or, on a busy machine, many.
    made = world.sql(
        """SELECT reminders.uuid7(), (SELECT count(*) FROM generate_series(1, 50 + n % 2)), clock_timestamp()
           FROM generate_series(1, 2000) n"""
    )
    ids = [UUID(str(each)) for each, _, _ in made]
    assert len(set(ids)) == len(ids)
    assert {(each.version, each.variant) for each in ids} == {(7, RFC_4122)}
    stamps = [(each.int >> 80) * 4096 + (each.int >> 64 & 0xFFF) for each in ids]
    assert len({stamp // 4096 for stamp in stamps}) < len(stamps)
    assert stamps == sorted(set(stamps))
    for stamp, (_, _, later) in zip(stamps, made, strict=True):
        assert 0 <= later.timestamp() - stamp / 4_096_000 < 10

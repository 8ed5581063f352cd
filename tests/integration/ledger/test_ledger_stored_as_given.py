"""Whatever passes the door is stored and read back unchanged; what does not leaves the transaction usable."""

from __future__ import annotations

import contextlib
import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reminders
from integration.ledger.world import NOW, ScriptedProvider
from reminders import InvalidInput
from reminders.domain.request import LIMITS, MAX_DATA_BYTES

TEXT = st.text(max_size=12) | st.text(alphabet="a\x00\n\x85\ud800\u2028é😀'%:\\", max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
INSTANT = st.datetimes(timezones=st.timezones() | st.just(UTC)) | st.datetimes()


@given(
    changed=st.fixed_dictionaries(
        {"due_at": INSTANT, "data": st.dictionaries(TEXT, JSON, max_size=3)},
        optional={
            "user_id": TEXT,
            "kind": TEXT,
            "reference": TEXT,
            "slot": TEXT,
            "zone": st.sampled_from(["Europe/Berlin", "Pacific/Apia", "nowhere"]),
            "expires_at": INSTANT,
        },
    )
)
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_is_either_refused_by_name_or_stored_as_it_is(world, changed):
    connection = world._connections[0] if world._connections else world.connect()
    wanted = world.wanted(**changed)
    try:
        made = reminders.schedule(connection, **wanted)
    except InvalidInput as error:
        assert error.field in wanted  # noqa: PT017
        assert reminders.schedule(connection, **world.wanted()).created
    else:
        found = reminders.get(connection, made.id)
        assert (found.user_id, found.kind, found.reference) == (wanted["user_id"], wanted["kind"], wanted["reference"])
        assert found.due_at == made.due_at
        with connection.cursor() as cursor:
            cursor.execute("SELECT data::text FROM reminders.reminders WHERE id = %s", (str(made.id),))
            assert json.loads(cursor.fetchone()[0]) == json.loads(json.dumps(wanted["data"]))
    finally:
        connection.rollback()


def test_the_longest_texts_of_the_widest_characters_fit_every_index(world):
    wide = random.Random(7)
    longest = {
        name: "".join(chr(wide.randrange(0x10000, 0x10FFFF)) for _ in range(LIMITS[name]))
        for name in ("tenant_id", "user_id", "kind", "reference", "slot")
    }
    made = world.schedule(**longest, destination="d" * 200)
    (message,) = world.published()
    assert world.deliver(ScriptedProvider())(message.reminder_id, message.delivery_key) == "delivered"
    found = world.committed(reminders.get, made.id)
    assert {name: getattr(found, name) for name in longest} == longest


def test_the_largest_data_comes_back_for_the_body(world):
    data = {"numbers": [1e308] * (MAX_DATA_BYTES // 340), "big": 2**63 - 1, "tiny": 5e-324}
    made = world.schedule(data=data)
    seen = []
    provider = ScriptedProvider()
    provider.render = lambda delivery: seen.append(delivery.data) or b""
    world.deliver(provider)(world.published()[0].reminder_id, made.delivery_key)
    (found,) = seen
    # Postgres writes 1e308 as an integer of 309 digits; the number is the same, and the same for every attempt.
    assert {**found, "numbers": list(map(float, found["numbers"]))} == data


@pytest.mark.parametrize(
    "due_at", [datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)], ids=str
)
def test_the_first_and_the_last_instant_are_stored(world, due_at):
    assert world.committed(reminders.get, world.schedule(due_at=due_at).id).due_at == due_at


@pytest.mark.parametrize(
    "due_at", [datetime(9998, 12, 31, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)], ids=str
)
def test_an_expiry_that_would_move_beyond_the_last_year_is_refused_by_name(world, due_at):
    made = world.schedule(due_at=world.now, expires_at=world.now + timedelta(days=366 * 3))
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.reschedule(connection, made.id, due_at=due_at)
    assert caught.value.field == "expires_at"
    assert reminders.schedule(connection, **world.wanted()).created


@pytest.mark.parametrize("bad", ["", "x", "00000000", None, 7, b"\x00" * 16, "{}", "../x"])
@pytest.mark.parametrize("call", [reminders.get, reminders.cancel])
def test_an_id_that_is_none_is_named(world, call, bad):
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        call(connection, bad)
    assert caught.value.field == "reminder_id"


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("due_at", {"due_at": datetime(2026, 1, 1)}),
        ("due_at", {"due_at": "tomorrow"}),
        ("due_at", {"due_at": datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1)}),
        ("zone", {"due_at": NOW, "zone": "../etc/passwd"}),
        ("expires_at", {"due_at": NOW, "expires_at": NOW}),
        ("expires_at", {"due_at": NOW, "expires_at": "never"}),
    ],
)
def test_reschedule_names_what_is_wrong_and_changes_nothing(world, field, given):
    made = world.schedule()
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.reschedule(connection, made.id, **given)
    assert caught.value.field == field
    with contextlib.closing(connection):
        assert reminders.get(connection, made.id).version == 1

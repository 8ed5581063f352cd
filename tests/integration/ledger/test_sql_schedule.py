"""`SELECT reminders.schedule(...)` and its neighbours: what Python does, from any language, in the caller's transaction."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reminders
from integration.ledger.world import NOW, ScriptedProvider
from reminders.calendar.zones import known_zones
from reminders.domain.errors import InvalidInput
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Unknown
from reminders.ledger import known
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

CONFLICT, MISSING, REFUSED, INVALID = "RM001", "RM002", "RM003", "22023"
TOMORROW = NOW + timedelta(days=1)
COLUMNS = """tenant_id, user_id, kind, channel, destination, destination_id::text, deduplicates, reference, slot, data::text,
due_at, zone, expires_at, identity_key, request_hash, delivery_key, version, status"""


def call(connection, function, **given):
    """A row of `SELECT * FROM reminders.function(name => value, ...)`."""
    named = ", ".join(f"{name} => %({name})s" for name in given)
    values = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in given.items()}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM reminders.{function}({named})", values)
        return cursor.fetchone()


def committed(world, function, **given):
    with world.connect() as connection:
        return call(connection, function, **given)


def state_of(world, function, **given):
    """SQLSTATE, field and message of what a call raises."""
    with pytest.raises(psycopg2.Error) as caught:
        committed(world, function, **given)
    return caught.value.pgcode, caught.value.diag.column_name, caught.value.diag.message_primary


def stored(world, made_id):
    return world.sql(f"SELECT {COLUMNS} FROM reminders.reminders WHERE id = %s", str(made_id))[0]


@pytest.mark.parametrize("reference", ["order-1", None])
def test_by_sql_and_then_by_python_is_one_reminder(world, reference):
    wanted = world.wanted(
        reference=reference, data={"n": 1.5, "é": [True, None]}, zone="Europe/Berlin", expires_at=TOMORROW
    )
    made_id, key, due_at, status, version, created = committed(world, "schedule", **wanted)
    assert (due_at, status, version, created) == (wanted["due_at"], "pending", 1, True)
    again = world.committed(reminders.schedule, **wanted)
    assert (str(again.id), again.delivery_key, again.created) == (made_id, key, False)
    assert committed(world, "schedule", **wanted) == (made_id, key, due_at, "pending", 1, False)
    assert world.sql("SELECT count(*) FROM reminders.due")[0][0] == 1


def test_by_python_and_then_by_sql_is_one_reminder(world):
    wanted = world.wanted(slot="early", data={"a": {"b": 1e20}})
    made = world.committed(reminders.schedule, **wanted)
    assert committed(world, "schedule", **wanted) == (str(made.id), made.delivery_key, made.due_at, "pending", 1, False)


def test_it_is_delivered_like_any_other(world):
    made_id, key, *_ = committed(world, "schedule", **world.wanted())
    (message,) = world.published()
    assert (str(message.reminder_id), message.delivery_key) == (made_id, key)
    assert world.deliver(ScriptedProvider())(message.reminder_id, key) == "delivered"


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
INSTANT = st.datetimes(datetime(1970, 1, 2), datetime(9990, 1, 1), timezones=st.just(UTC))


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    wanted=st.fixed_dictionaries(
        {
            "tenant_id": TEXT, "user_id": TEXT, "kind": TEXT, "channel": st.sampled_from(["log", "webhook", "email"]),
            "due_at": INSTANT, "reference": TEXT | st.none(), "slot": TEXT | st.none() | st.just(""),
            "zone": st.sampled_from(sorted(known_zones())) | st.none(), "data": st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False) | TEXT, max_size=3) | st.none(),
            "expires_at": st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=999)),
        }
    )
)  # fmt: skip
def test_every_column_is_as_python_writes_it(world, wanted):
    if wanted["expires_at"] is not None:
        wanted["expires_at"] += wanted["due_at"]
    wanted["destination"] = {"webhook": "https://hooks.example/x", "email": "a@example.com", "log": "é"}[
        wanted["channel"]
    ]
    connection = world._connections[0] if world._connections else world.connect()
    columns = f"SELECT {COLUMNS} FROM reminders.reminders"
    rows = []
    for schedule in (
        lambda: call(connection, "schedule", **wanted)[5],
        lambda: reminders.schedule(connection, **wanted).created,
    ):
        assert schedule() is True
        with connection.cursor() as cursor:
            cursor.execute(columns)
            (row,) = cursor.fetchall()
            rows.append([bytes(value) if isinstance(value, memoryview) else value for value in row])
        connection.rollback()
    assert rows[0] == rows[1]


BAD = [
    {"tenant_id": ""}, {"tenant_id": "x" * 129}, {"user_id": "\x01"}, {"user_id": "a\x85b"}, {"kind": "\x7f"}, {"kind": "k" * 65},
    {"destination": ""}, {"destination": "d" * 2001}, {"reference": ""}, {"reference": "r" * 513}, {"slot": "s" * 65},
    {"slot": "a\nb"}, {"user_id": "😀" * 257}, {"due_at": datetime(9999, 1, 1, tzinfo=UTC)},
    {"due_at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)}, {"expires_at": NOW - timedelta(minutes=1)},
    {"expires_at": NOW - timedelta(days=9)}, {"expires_at": datetime(9999, 1, 1, tzinfo=UTC)}, {"zone": "Mars/Olympus"},
    {"zone": "europe/berlin"}, {"zone": "Factory"}, {"zone": ""}, {"channel": "fax"}, {"channel": ""}, {"channel": "LOG"},
    {"data": {"a": 2**63}}, {"data": {"a": "x" * 9000}}, {"data": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}}}}}}}}}},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: ascii(bad)[:40])
def test_what_python_refuses_sql_refuses_in_the_same_words(world, bad):
    wanted = world.wanted(due_at=world.now - timedelta(minutes=1), **{k: v for k, v in bad.items() if k != "due_at"})
    wanted.update(bad)
    with pytest.raises(InvalidInput) as caught:
        to_request(lambda name: registry.load(name, Settings()), **wanted)
    state, field, said = state_of(world, "schedule", **wanted)
    assert (state, field) == (INVALID, caught.value.field)
    assert said == str(caught.value)
    assert world.sql("SELECT count(*) FROM reminders.reminders")[0][0] == 0


@pytest.mark.parametrize("field", ["tenant_id", "user_id", "kind", "channel", "destination", "due_at"])
def test_null_is_refused_by_name(world, field):
    assert state_of(world, "schedule", **world.wanted(**{field: None}))[:2] == (INVALID, field)


@pytest.mark.parametrize("instant", ["infinity", "-infinity", "0044-03-15 BC", "290000-01-01Z"])
@pytest.mark.parametrize("field", ["due_at", "expires_at"])
def test_what_python_has_no_datetime_for_is_refused(world, field, instant):
    assert state_of(world, "schedule", **world.wanted(**{field: instant}))[:2] == (INVALID, field)


@pytest.mark.parametrize("data", ["[]", "1", '"a"', "null", "true"])
def test_data_that_is_no_object_is_refused(world, data):
    assert state_of(world, "schedule", **world.wanted(data=data))[:2] == (INVALID, "data")


def test_another_content_is_a_conflict_with_a_state_of_its_own(world):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    state, _, said = state_of(world, "schedule", **{**wanted, "data": {"a": 1}, "destination": "elsewhere"})
    assert state == CONFLICT
    with pytest.raises(reminders.Conflict) as caught:
        world.committed(reminders.schedule, **{**wanted, "data": {"a": 1}, "destination": "elsewhere"})
    assert said == str(caught.value)
    assert str(made.id) in said
    assert "another destination and data" in said


def test_an_error_ends_with_the_savepoint_and_the_transaction_goes_on(world):
    wanted = world.wanted()
    world.committed(reminders.schedule, **wanted)
    with world.connect() as connection, connection.cursor() as cursor:
        first = call(connection, "schedule", **world.wanted())
        cursor.execute("SAVEPOINT here")
        with pytest.raises(psycopg2.Error):
            call(connection, "schedule", **{**wanted, "data": {"a": 1}})
        cursor.execute("ROLLBACK TO here")
        second = call(connection, "schedule", **world.wanted())
    assert [world.status(each[0])[0] for each in (first, second)] == ["pending", "pending"]


def test_it_rolls_back_with_the_caller(world):
    connection = world.connect()
    call(connection, "schedule", **world.wanted())
    connection.rollback()
    assert world.sql("SELECT (SELECT count(*) FROM reminders.reminders), (SELECT count(*) FROM reminders.due)") == [
        (0, 0)
    ]


def test_cancel_says_what_python_says(world):
    made = world.schedule()
    world.opened(made)
    assert committed(world, "cancel", id=str(made.id)) == ("requested",)
    assert world.committed(reminders.cancel, made.id) == "requested"
    wanted = uuid7()
    assert state_of(world, "cancel", id=str(wanted)) == (MISSING, None, f"there is no reminder {wanted}")
    assert state_of(world, "cancel", id=None)[0] == MISSING
    world.sql(
        "WITH d AS (DELETE FROM reminders.due) UPDATE reminders.reminders SET status = 'suppressed', suppressed_by = id, "
        "suppressed_reason = 'asked', finished_at = now(), cancel_requested_at = NULL"
    )
    world.sql("DELETE FROM reminders.notification_deliveries")
    world.sql("DELETE FROM audit.moves")
    state, _, said = state_of(world, "cancel", id=str(made.id))
    assert (state, said) == (REFUSED, f"reminder {made.id} is suppressed: nothing is left to cancel")


def test_cancel_where_says_what_python_says(world):
    first = world.schedule(reference="invoice-17", slot="a")
    world.finalize(world.opened(first), Delivered())
    second = world.schedule(reference="invoice-17", slot="b")
    dry = committed(world, "cancel_where", tenant_id="tenant-a", reference="invoice-17", dry_run=True)
    assert dry == committed(world, "cancel_where", tenant_id="tenant-a", reference="invoice-17")
    assert dry == (f"{{{second.id}}}", "{}", "{}", f"{{{first.id}}}", False)
    assert state_of(world, "cancel_where", tenant_id="tenant-a")[:2] == (INVALID, "reference")
    assert state_of(world, "cancel_where", tenant_id=None, reference="r")[:2] == (INVALID, "tenant_id")
    assert state_of(world, "cancel_where", tenant_id="t", user_id="u", at_most=0)[:2] == (INVALID, "at_most")
    assert state_of(world, "cancel_where", tenant_id="t", user_id="u", dry_run=None)[:2] == (INVALID, "dry_run")


def test_reschedule_moves_and_revives(world):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    world.committed(reminders.cancel, made.id)
    moved = committed(world, "reschedule", id=str(made.id), due_at=TOMORROW, zone="Asia/Tokyo")
    found = world.committed(reminders.get, made.id)
    assert moved == (str(made.id), found.delivery_key, TOMORROW, "pending", 2, False)
    assert (found.zone, found.expires_at) == ("Asia/Tokyo", TOMORROW + timedelta(minutes=61))
    assert committed(world, "reschedule", id=str(made.id), due_at=TOMORROW)[4] == 2


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("due_at", {"due_at": None}),
        ("due_at", {"due_at": "infinity"}),
        ("zone", {"due_at": TOMORROW, "zone": "nowhere"}),
        ("expires_at", {"due_at": TOMORROW, "expires_at": TOMORROW}),
        ("expires_at", {"due_at": TOMORROW, "expires_at": "9999-01-01Z"}),
    ],
)
def test_reschedule_names_what_is_wrong(world, field, given):
    made = world.schedule()
    assert state_of(world, "reschedule", id=str(made.id), **given)[:2] == (INVALID, field)
    assert world.committed(reminders.get, made.id).version == 1


@pytest.mark.parametrize("function", ["reschedule", "snooze"])
def test_moving_is_refused_in_the_same_words(world, function):
    made = world.schedule(deduplicates=False)
    world.finalize(world.opened(made), Unknown("timeout", "no answer", timed_out=True))
    given = {"due_at" if function == "reschedule" else "until": TOMORROW}
    with pytest.raises(reminders.Refused) as caught:
        world.committed(getattr(reminders, function), made.id, **given)
    assert state_of(world, function, id=str(made.id), **given) == (REFUSED, None, str(caught.value))
    assert state_of(world, function, id=str(uuid7()), **given)[0] == MISSING


def test_snooze(world):
    made = world.schedule(due_at=TOMORROW)
    assert committed(world, "snooze", id=str(made.id), by="1 hour")[2] == TOMORROW + timedelta(hours=1)
    assert committed(world, "snooze", id=str(made.id), until=TOMORROW + timedelta(days=1))[4] == 3
    for by in ("-100000000 years", "100000000 years"):
        assert state_of(world, "snooze", id=str(made.id), by=by)[:2] == (INVALID, "by")
    assert state_of(world, "snooze", id=str(made.id))[:2] == (INVALID, "until")
    assert state_of(world, "snooze", id=str(made.id), by="-1 hour")[:2] == (INVALID, "by")
    assert state_of(world, "snooze", id=str(made.id), until="infinity")[:2] == (INVALID, "until")


@pytest.mark.parametrize("path", ["", "public", "pg_temp, public"])
def test_the_callers_search_path_does_not_matter(world, path):
    with world.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT set_config('search_path', %s, true)", (path,))
        cursor.execute("CREATE TEMP TABLE due (id int)")
        cursor.execute("CREATE TEMP TABLE reminders (id int)")
        cursor.execute("CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT ''x''::bytea'")
        wanted = world.wanted()
        made_id, *_ = call(connection, "schedule", **wanted)
        assert reminders.schedule(connection, **wanted).created is False
        call(connection, "reschedule", id=made_id, due_at=TOMORROW)
        call(connection, "snooze", id=made_id, by="1 hour")
        assert (
            call(connection, "cancel_where", tenant_id="tenant-a", reference=wanted["reference"])[0] == f"{{{made_id}}}"
        )
        assert call(connection, "cancel", id=made_id) == ("cancelled",)
        connection.rollback()


def test_the_sessions_settings_do_not_matter(world):
    wanted = world.wanted(data={"n": 0.1, "t": "é\\"}, expires_at=TOMORROW)
    options = "-c timezone=America/St_Johns -c datestyle=SQL,DMY -c intervalstyle=sql_standard -c bytea_output=escape -c extra_float_digits=-15"
    with world.connect(options=options) as connection:
        made = call(connection, "schedule", **wanted)
    again = world.committed(reminders.schedule, **wanted)
    assert (str(again.id), again.created) == (made[0], False)


def test_functions_run_with_the_rights_of_whoever_calls(world):
    assert world.sql("SELECT count(*) FROM pg_proc WHERE pronamespace = 'reminders'::regnamespace AND prosecdef") == [
        (0,)
    ]
    connection = world.connect()
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE stranger")
        cursor.execute("GRANT USAGE ON SCHEMA reminders TO stranger")
        cursor.execute("GRANT SELECT ON reminders.known_channels, reminders.known_zones TO stranger")
        cursor.execute("SET LOCAL ROLE stranger")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            call(connection, "schedule", **world.wanted())
    connection.rollback()


def test_the_ledger_is_told_of_channels_and_forgets_none(world):
    try:
        assert known.tell(world.database, {"fax": False, "log": True}, ["Europe/Berlin", "Mars/Olympus"]) == (1, 1)
        assert known.tell(world.database, {"fax": True}, []) == (1, 0)
        assert known.tell(world.database, {"fax": True, "log": True}, known_zones()) == (0, 0)
        made_id, *_ = committed(world, "schedule", **world.wanted(channel="fax", zone="Mars/Olympus"))
        assert stored(world, made_id)[6] is True
        assert committed(world, "schedule", **world.wanted(channel="log"))[5]
    finally:
        world.sql("DELETE FROM reminders.known_channels WHERE name = 'fax'")
        world.sql("DELETE FROM reminders.known_zones WHERE name = 'Mars/Olympus'")

"""Whatever a caller passes to any function of the API: what is of no use is refused by name, and nothing comes of it."""

from __future__ import annotations

import inspect
from datetime import date, datetime, timedelta

import pytest

import reminders
from integration.ledger.series_stage import START
from integration.ledger.series_stage import wanted as series_wanted
from integration.ledger.world import NOW
from reminders import InvalidInput, Refused
from reminders.ledger.recipients import UNCHANGED, recipients
from reminders.series import KEPT
from tables import TABLES

TOMORROW = NOW + timedelta(days=1)
WRONG = [
    object(), 5, 0, -1, 1.5, float("nan"), True, False, b"x", "no", "\x00", "x" * 3000, "\ud800", date(2030, 5, 1), datetime(1, 1, 1), ["x"],
    [["x"]], [None], ("22:00",), ("22:00", 7), ("x", "y", "z"), {"x": object()}, {5: 5}, {"x"}, UNCHANGED, KEPT, InvalidInput,
]  # fmt: skip
USER = {"tenant_id": "tenant-a", "user_id": "user-1"}
TEXTS = {"tenant_id", "user_id", "kind", "channel", "destination", "reference", "slot", "reason", "source", "actor", "locale"}  # fmt: skip
FLAGS = {"dry_run", "follows_user", "allowed"}


def takes(function, name, value):
    """Whether it is none of the wrong ones here. What looks right for a text or a number is not wrong."""
    if value is (UNCHANGED if function is reminders.set_recipient else KEPT):
        return function is reminders.edit_series or (
            function is reminders.set_recipient and name in {"zone", "locale", "quiet_hours"}
        )
    if name in FLAGS:
        return isinstance(value, bool)
    if name == "at_most":
        return type(value) is int and value > 0
    return (name in TEXTS and value == "no") or (name == "rule" and value is None)


def cases():
    word = {"tenant_id": "tenant-a", "reason": "unsubscribed"}
    one = {"reminder_id": "the reminder"}
    many = {"series_id": "the series"}
    turn = {**many, "turn": START}
    return [
        (reminders.cancel, one),
        (reminders.cancel_where, {**USER, "reference": "order-1"}),
        (reminders.get, one),
        (reminders.reschedule, {**one, "due_at": TOMORROW}),
        (reminders.schedule, {**USER, "kind": "note", "channel": "log", "destination": "somewhere", "due_at": TOMORROW}),
        (reminders.schedule_many, {"reminders": []}),
        (reminders.snooze, {**one, "by": timedelta(hours=1)}),
        (reminders.snooze, one),
        *[
            (function, {**word, **subject})
            for function in (reminders.suppress, reminders.unsuppress)
            for subject in (
                {"user_id": "user-1"},
                {"destination": "somewhere", "channel": "log"},
                {"destination_id": "9c4f3a52-1f0e-4c43-8f4e-6d7c0e0d3b11"},
            )
        ],
        (reminders.set_recipient, USER),
        (reminders.set_preference, {**USER, "allowed": False}),
        (reminders.schedule_series, series_wanted(reference="other pills")),
        (reminders.edit_series, many),
        (reminders.pause_series, many),
        (reminders.resume_series, many),
        (reminders.cancel_series, many),
        (reminders.get_series, many),
        (reminders.skip_occurrence, turn),
        (reminders.restore_occurrence, turn),
        (reminders.move_occurrence, {**turn, "due_at": TOMORROW}),
    ]  # fmt: skip


def arguments(function, given):
    """Every parameter that can be tried together with what is given: a user, an address and an id exclude each other."""
    named = [name for name in inspect.signature(function).parameters if name != "connection"]
    subjects = {"user_id", "destination", "destination_id"}
    if function in (reminders.suppress, reminders.unsuppress):
        return [name for name in named if name not in subjects or name in given]
    if function is reminders.snooze:
        return ["reminder_id", "by"] if "by" in given else ["until"]
    return named


EACH = [
    pytest.param(function, given, name, id=f"{function.__name__}-{name}-{number}")
    for number, (function, given) in enumerate(cases())
    for name in arguments(function, given)
]


@pytest.fixture
def standing(world):
    """A connection in a transaction, of a ledger where everything stands; and the ids to use."""
    made = world.schedule(due_at=TOMORROW)
    of_user = {**USER, "zone": "Europe/Berlin", "locale": "de", "quiet_hours": ("22:00", "07:00")}
    world.committed(reminders.set_recipient, **of_user)
    series = world.committed(reminders.schedule_series, **series_wanted())
    return world.connect(), {"the reminder": made.id, "the series": series.id}


def contents(connection):
    with connection.cursor() as cursor:
        hashed = "SELECT '{0}', md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM reminders.{0} t"
        cursor.execute(" UNION ALL ".join(f"({hashed.format(table)})" for table in TABLES))
        # Of so many tables, Postgres gives the rows in any order.
        return dict(cursor.fetchall())


@pytest.mark.parametrize(("function", "given", "name"), EACH)
def test_a_wrong_argument_is_named_and_nothing_comes_of_it(standing, function, given, name):
    connection, ids = standing
    given = {key: ids.get(value, value) if isinstance(value, str) else value for key, value in given.items()}
    before = contents(connection)
    wrong = [value for value in WRONG if not takes(function, name, value)]
    assert len(wrong) > 15
    for value in wrong:
        with pytest.raises(InvalidInput) as caught:
            function(connection, **{**given, name: value})
        # One of many is named with its position.
        assert caught.value.field.partition("[")[0] == name, value
        assert contents(connection) == before, value


def test_every_function_of_the_api_is_tried_with_each_of_its_arguments():
    public = [getattr(reminders, name) for name in reminders.__all__]
    functions = {each for each in public if inspect.isfunction(each)} - {reminders.verify_unsubscribe}
    tried = {(each.values[0], each.values[2]) for each in EACH}
    assert tried == {(each, name) for each in functions for name in inspect.signature(each).parameters} - {
        (each, "connection") for each in functions
    }


@pytest.mark.parametrize("value", [each for each in WRONG if each is not None], ids=lambda each: type(each).__name__)
def test_no_unsubscribe_token(value):
    with pytest.raises(InvalidInput) as caught:
        reminders.verify_unsubscribe(value)
    assert caught.value.field == "token"


def quiet(world):
    (found,) = recipients(world.database, tenant="tenant-a", user="user-1")
    return str(found.quiet_hours)


def test_quiet_hours_may_be_a_list_as_json_has_it(world):
    world.committed(reminders.set_recipient, **USER, zone="Europe/Berlin", quiet_hours=["22:00", "07:00"])
    assert quiet(world) == "22:00-07:00"


@pytest.mark.parametrize("wrong", ["22:00-07:00", ["22:00"], ["22:00", "25:00"], 5, [], {}])
def test_quiet_hours_that_are_none_erase_none(world, wrong):
    world.committed(reminders.set_recipient, **USER, zone="Europe/Berlin", quiet_hours=("22:00", "07:00"))
    with pytest.raises(InvalidInput) as caught:
        world.committed(reminders.set_recipient, **USER, quiet_hours=wrong)
    assert caught.value.field == "quiet_hours"
    assert quiet(world) == "22:00-07:00"


def test_of_an_unknown_user_without_a_zone_nothing_is_left_by_refused_quiet_hours(world):
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.set_recipient(connection, **USER, quiet_hours=("22:00", "07:00"))
    connection.commit()
    assert caught.value.field == "zone"
    assert recipients(world.database, tenant="tenant-a") == []


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("preferences", lambda connection: reminders.set_preference(connection, **USER, allowed=False)),
        ("suppressions", lambda connection: reminders.suppress(connection, **USER, reason="unsubscribed")),
    ],
)
def test_where_others_are_always_faster_the_call_ends_and_says_so(world, table, call):
    """Stood in for by a trigger that lets no row in, which looks the same from here."""
    connection = world.connect()
    with connection.cursor() as cursor:
        cursor.execute("CREATE FUNCTION pg_temp.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        cursor.execute(
            f"CREATE TRIGGER faster BEFORE INSERT ON reminders.{table} FOR EACH ROW EXECUTE FUNCTION pg_temp.nothing()"
        )
        with pytest.raises(Refused, match="try again"):
            call(connection)
        cursor.execute(f"SELECT count(*) FROM reminders.{table}")
        assert cursor.fetchone() == (0,)
    connection.rollback()


def test_a_series_with_too_much_behind_it_is_refused_instead_of_looked_through_for_ever(world, monkeypatch):
    """Here nothing is ever decided, so that it never gets to now."""
    made = world.committed(reminders.schedule_series, **series_wanted())
    world.sql("UPDATE reminders.series SET planned_until = now() - interval '1 day' WHERE id = %s", str(made.id))
    rounds = []
    monkeypatch.setattr("reminders.ledger.series_changing.decide", lambda *_: rounds.append(1))
    with pytest.raises(Refused, match="try again"):
        world.committed(reminders.pause_series, made.id)
    assert len(rounds) == 100


def test_one_reminder_is_no_list_of_them(world):
    with pytest.raises(reminders.InvalidInput, match=r"^reminders: must be several mappings, not dict$"):
        reminders.schedule_many(world.connect(), world.wanted())

"""One identity, one reminder: the same request again returns the row as it stands, whatever became of it (G1)."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import NOW, ScriptedProvider
from reminders import Conflict, InvalidInput
from reminders.domain.identity import identity_key


def test_a_rolled_back_caller_leaves_nothing(world):
    connection = world.connect()
    made = reminders.schedule(connection, **world.wanted())
    connection.rollback()
    with pytest.raises(reminders.NotFound):
        reminders.get(connection, made.id)
    assert world.sql("SELECT count(*) FROM reminders.due")[0][0] == 0


def test_it_commits_together_with_the_callers_own_rows(world):
    connection = world.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE orders (id text)")
        cursor.execute("INSERT INTO orders VALUES ('order-x')")
        made = reminders.schedule(connection, **world.wanted(reference="order-x"))
        assert made.created
        assert world.sql("SELECT count(*) FROM reminders.reminders")[0][0] == 0
    assert world.status(made.id) == ("pending", None)


def test_the_same_request_twice_is_one_reminder(world):
    wanted = world.wanted()
    first = world.committed(reminders.schedule, **wanted)
    second = world.committed(reminders.schedule, **wanted)
    assert (first.created, second.created) == (True, False)
    assert (first.id, first.delivery_key, first.due_at) == (second.id, second.delivery_key, second.due_at)
    assert world.sql("SELECT count(*) FROM reminders.due")[0][0] == 1


def test_twice_in_one_transaction(world):
    wanted = world.wanted()
    with world.connect() as connection:
        first = reminders.schedule(connection, **wanted)
        second = reminders.schedule(connection, **wanted)
    assert (first.id, True, False) == (second.id, first.created, second.created)


def test_two_open_transactions_the_second_waits_and_sees_the_first(world):
    wanted = world.wanted()
    first, second = world.connect(), world.connect()
    made = reminders.schedule(first, **wanted)
    answer = world.start(reminders.schedule, second, **wanted)
    world.waiting_for_a_lock()
    assert not answer.done()
    first.commit()
    found = answer.result(timeout=10)
    second.commit()
    assert (found.id, found.created) == (made.id, False)


def test_two_open_transactions_the_first_rolls_back_and_the_second_creates(world):
    wanted = world.wanted()
    first, second = world.connect(), world.connect()
    made = reminders.schedule(first, **wanted)
    answer = world.start(reminders.schedule, second, **wanted)
    world.waiting_for_a_lock()
    first.rollback()
    found = answer.result(timeout=10)
    second.commit()
    assert found.created
    assert found.id != made.id
    assert world.status(found.id) == ("pending", None)


def test_after_cancel_it_stays_cancelled(world):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    world.committed(reminders.cancel, made.id)
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.created, again.status) == (made.id, False, "cancelled")
    assert world.published() == []


def test_after_delivery_it_stays_delivered(world):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    (message,) = world.published()
    world.deliver(ScriptedProvider())(message.reminder_id, message.delivery_key)
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.created, again.status) == (made.id, False, "delivered")
    assert world.published() == []


def test_after_reschedule_the_first_request_finds_the_moved_row(world):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=3))
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.created) == (made.id, False)
    assert (again.due_at, again.version, again.delivery_key) == (world.now + timedelta(days=3), 2, moved.delivery_key)
    assert moved.delivery_key != made.delivery_key


def test_without_a_reference_the_instant_tells_reminders_apart(world):
    first = world.schedule(reference=None, due_at=world.now)
    same = world.schedule(reference=None, due_at=world.now)
    other = world.schedule(reference=None, due_at=world.now + timedelta(seconds=1))
    assert (same.id, same.created) == (first.id, False)
    assert other.created


@pytest.mark.parametrize("part", ["tenant_id", "user_id", "kind", "slot", "reference"])
def test_each_part_of_the_identity_tells_reminders_apart(world, part):
    wanted = world.wanted()
    first = world.committed(reminders.schedule, **wanted)
    other = world.committed(reminders.schedule, **{**wanted, part: "another"})
    assert other.created
    assert other.delivery_key != first.delivery_key


@pytest.mark.parametrize(
    "changed",
    [
        {"destination": "elsewhere"},
        {"due_at": NOW + timedelta(hours=1)},
        {"zone": "Europe/Berlin"},
        {"data": {"a": 1}},
        {"expires_at": NOW + timedelta(days=1)},
    ],
)
def test_other_content_under_one_identity_is_a_conflict(world, changed):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    connection = world.connect()
    with connection:
        with pytest.raises(Conflict, match=str(made.id)):
            reminders.schedule(connection, **{**wanted, **changed})
        after = reminders.schedule(connection, **world.wanted())
    assert world.status(after.id) == ("pending", None)


def test_many_answer_in_order_and_count_a_repeat_once(world):
    one, two = world.wanted(), world.wanted()
    first = world.committed(reminders.schedule, **one)
    answers = world.committed(reminders.schedule_many, [two, one, two])
    assert [each.created for each in answers] == [True, False, False]
    assert answers[1].id == first.id
    assert answers[0].id == answers[2].id


def test_more_than_a_thousand_at_once(world):
    wanted = [world.wanted() for _ in range(1500)]
    answers = world.committed(reminders.schedule_many, wanted)
    assert len({each.id for each in answers}) == 1500
    again = world.committed(reminders.schedule_many, reversed(wanted))
    assert [each.id for each in again] == [each.id for each in reversed(answers)]
    assert not any(each.created for each in again)
    assert world.sql("SELECT count(*) FROM reminders.due")[0][0] == 1500


def test_many_name_the_position_of_what_is_wrong(world):
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.schedule_many(connection, [world.wanted(), world.wanted(user_id="")])
    assert caught.value.field == "reminders[1].user_id"
    with pytest.raises(InvalidInput) as caught:
        reminders.schedule_many(connection, [{**world.wanted(), "colour": "red"}])
    assert caught.value.field == "reminders[0]"
    assert "colour" in caught.value.reason
    assert world.sql("SELECT count(*) FROM reminders.reminders")[0][0] == 0


def test_many_name_the_position_of_a_conflict(world):
    wanted = world.wanted()
    world.committed(reminders.schedule, **wanted)
    with world.connect() as connection:
        with pytest.raises(Conflict, match=r"reminders\[1\]"):
            reminders.schedule_many(connection, [world.wanted(), {**wanted, "destination": "elsewhere"}])
        connection.rollback()
    assert world.sql("SELECT count(*) FROM reminders.reminders")[0][0] == 1


def test_many_go_in_by_identity_so_that_two_transactions_cannot_deadlock(world, monkeypatch):
    monkeypatch.setattr(reminders.api, "MOST_AT_ONCE", 1)
    low, high = sorted((world.wanted(), world.wanted()), key=_identity)
    first, second = world.connect(), world.connect()
    reminders.schedule(first, **low)
    answer = world.start(reminders.schedule_many, second, [high, low])
    world.waiting_for_a_lock()
    assert reminders.schedule(first, **high).created
    first.commit()
    assert [each.created for each in answer.result(timeout=10)] == [False, False]


def _identity(wanted):
    names = ("tenant_id", "user_id", "reference", "kind", "channel", "due_at")
    return identity_key(**{name: wanted[name] for name in names}, slot="")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"destination": "elsewhere"}, "another destination;"),
        ({"due_at": NOW + timedelta(days=3)}, "another due_at;"),
        ({"data": {"a": 2}, "zone": "Europe/Berlin"}, "another zone and data;"),
        ({"expires_at": NOW + timedelta(days=9)}, "another expires_at;"),
    ],
)
def test_a_conflict_names_what_differs_and_no_value(world, changed, named):
    wanted = world.wanted(reference="order-9", data={"a": 1})
    world.committed(reminders.schedule, **wanted)
    with pytest.raises(Conflict, match=named) as caught:
        world.committed(reminders.schedule, **{**wanted, **changed})
    assert "elsewhere" not in str(caught.value)
    assert "somewhere" not in str(caught.value)


def test_a_conflict_with_what_was_moved_there_says_so(world):
    wanted = world.wanted(reference="order-9")
    made = world.committed(reminders.schedule, **wanted)
    later = world.now + timedelta(days=3)
    world.committed(reminders.reschedule, made.id, due_at=later)
    with pytest.raises(Conflict, match="with what another request asked for"):
        world.committed(reminders.schedule, **{**wanted, "due_at": later})

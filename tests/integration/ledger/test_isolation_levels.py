"""What docs/embedding.md says of each isolation level: what others see, which errors come, and that asking again is enough."""

from __future__ import annotations

import random
from datetime import timedelta

import psycopg2
import pytest
from psycopg2.errors import SerializationFailure
from psycopg2.extensions import (
    ISOLATION_LEVEL_READ_COMMITTED,
    ISOLATION_LEVEL_REPEATABLE_READ,
    ISOLATION_LEVEL_SERIALIZABLE,
)

import reminders
from integration.ledger.world import NOW
from reminders import NotFound

LEVELS = {
    "read committed": ISOLATION_LEVEL_READ_COMMITTED,
    "repeatable read": ISOLATION_LEVEL_REPEATABLE_READ,
    "serializable": ISOLATION_LEVEL_SERIALIZABLE,
}
STRICT = ("repeatable read", "serializable")
TOMORROW = NOW + timedelta(days=1)
each_level = pytest.mark.parametrize("level", LEVELS)
each_strict_level = pytest.mark.parametrize("level", STRICT)


@pytest.fixture
def begin(world):
    """A caller's connection whose transactions are at a level; with `looked`, one has begun and keeps its snapshot."""

    def begun(level, *, looked=False):
        connection = world.connect()
        connection.set_session(isolation_level=LEVELS[level])
        if looked:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        return connection

    return begun


def count(world):
    return world.sql("SELECT (SELECT count(*) FROM reminders.reminders), (SELECT count(*) FROM reminders.due)")[0]


def again_after_40001(connection, call, *arguments, **named):
    """What an application does at the stricter levels: roll back and do the whole transaction again. How often it had to."""
    for failures in range(1000):
        try:
            answer = call(connection, *arguments, **named)
            connection.commit()
        except SerializationFailure:
            connection.rollback()
        else:
            return answer, failures
    raise AssertionError("never went through")


@each_level
def test_nobody_sees_it_before_the_commit_and_a_rolled_back_order_leaves_none(world, begin, level):
    writer, reader = begin(level), begin(level)
    made = reminders.schedule(writer, **world.wanted())
    many = reminders.schedule_many(writer, [world.wanted(), world.wanted()])
    for each in (made, *many):
        assert reminders.get(writer, each.id).status == "pending"
        with pytest.raises(NotFound):
            reminders.get(reader, each.id)
    assert world.published() == []
    writer.rollback()
    assert count(world) == (0, 0)


@each_level
def test_a_snapshot_shows_what_was_committed_before_it(world, begin, level):
    reader = begin(level, looked=True)
    made = world.schedule()
    if level == "read committed":
        assert reminders.get(reader, made.id).id == made.id
        return
    with pytest.raises(NotFound):
        reminders.get(reader, made.id)
    reader.rollback()
    assert reminders.get(reader, made.id).id == made.id


@each_level
@pytest.mark.parametrize("first_commits", [True, False])
def test_two_that_schedule_the_same_at_once_give_one_row(world, begin, level, first_commits):
    wanted = world.wanted()
    first, second = begin(level), begin(level)
    made = reminders.schedule(first, **wanted)
    answer = world.start(again_after_40001, second, reminders.schedule, **wanted)
    world.waiting_for_a_lock()
    first.commit() if first_commits else first.rollback()
    found, failures = answer.result(timeout=10)
    assert failures == (1 if first_commits and level in STRICT else 0)
    assert found.created is not first_commits
    assert (found.id == made.id) is first_commits
    assert count(world) == (1, 1)


@each_strict_level
def test_what_was_scheduled_after_the_snapshot_is_a_serialization_failure_and_nothing_is_half_done(world, begin, level):
    late = begin(level, looked=True)
    wanted = [world.wanted() for _ in range(5)]
    world.committed(reminders.schedule, **wanted[3])
    with pytest.raises(SerializationFailure) as caught:
        reminders.schedule_many(late, wanted)
    assert caught.value.pgcode == "40001"
    late.rollback()
    assert count(world) == (1, 1)
    answers = reminders.schedule_many(late, wanted)
    late.commit()
    assert [each.created for each in answers] == [True, True, True, False, True]


@each_level
def test_overlapping_sets_in_any_order_never_deadlock(world, begin, level):
    """Eight at once, each a part of the same sixty in an order of its own: 40001 at most, and one row for each in the end."""
    pool = [world.wanted() for _ in range(60)]
    dice = random.Random(level)
    parts = [dice.sample(pool, 40) for _ in range(8)]

    def everything(connection, part):
        return again_after_40001(connection, reminders.schedule_many, part)[0]

    work = [world.start(everything, begin(level), part) for part in parts]
    ids = {}
    for part, answers in zip(parts, [each.result(timeout=30) for each in work], strict=True):
        for wanted, answer in zip(part, answers, strict=True):
            assert ids.setdefault(wanted["reference"], answer.id) == answer.id
    assert count(world) == (len(ids), len(ids))
    created = [answer for each in work for answer in each.result() if answer.created]
    assert len(created) == len(ids)


CHANGES = {
    "cancel": lambda connection, made: reminders.cancel(connection, made.id),
    "cancel_where": lambda connection, made: (
        reminders.cancel_where(connection, tenant_id="tenant-a", reference="r").counts
    ),
    "reschedule": lambda connection, made: reminders.reschedule(connection, made.id, due_at=TOMORROW).version,
    "snooze": lambda connection, made: reminders.snooze(connection, made.id, until=TOMORROW).version,
}


@each_strict_level
@pytest.mark.parametrize("change", CHANGES)
def test_a_claim_after_the_snapshot_is_never_overlooked(world, begin, level, change):
    made = world.schedule(reference="r")
    world.published()
    late = begin(level, looked=True)
    assert world.claim(made) is not None
    with pytest.raises(SerializationFailure):
        CHANGES[change](late, made)
    late.rollback()
    if change in {"reschedule", "snooze"}:
        with pytest.raises(reminders.Refused, match="being sent right now"):
            CHANGES[change](late, made)
    else:
        assert CHANGES[change](late, made) in (
            "requested",
            {"cancelled": 0, "requested": 1, "maybe_sent": 0, "too_late": 0},
        )


@each_level
@pytest.mark.parametrize("change", CHANGES)
def test_two_changes_of_one_reminder_come_one_after_the_other(world, begin, level, change):
    made = world.schedule(reference="r", due_at=world.now + timedelta(hours=1))
    first, second = begin(level), begin(level)
    reminders.reschedule(first, made.id, due_at=world.now + timedelta(hours=2))
    answer = world.start(again_after_40001, second, CHANGES[change], made)
    world.waiting_for_a_lock()
    first.commit()
    changed, failures = answer.result(timeout=10)
    assert failures == (1 if level in STRICT else 0)
    assert changed == {"cancel": "cancelled", "reschedule": 3, "snooze": 3}.get(
        change, {"cancelled": 1, "requested": 0, "maybe_sent": 0, "too_late": 0}
    )


@each_level
def test_a_change_of_what_nobody_else_touches_needs_no_second_try(world, begin, level):
    made = [world.schedule(due_at=TOMORROW) for _ in range(2)]
    first, second = begin(level, looked=True), begin(level, looked=True)
    assert reminders.cancel(first, made[0].id) == "cancelled"
    assert reminders.snooze(second, made[1].id, by=timedelta(hours=1)).version == 2
    assert reminders.schedule(first, **world.wanted()).created
    assert reminders.schedule(second, **world.wanted()).created
    second.rollback() if level == "serializable" else second.commit()
    first.commit()


def test_under_serializable_the_failure_may_come_with_the_commit(world, begin):
    """Each decides by what it has read that the other is not there: only this level notices, and one of them must begin anew."""

    def one_for_ada(connection):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM reminders.reminders WHERE user_id = 'ada'")
            if cursor.fetchone()[0] == 0:
                reminders.schedule(connection, **world.wanted(user_id="ada"))

    first, second = begin("serializable"), begin("serializable")
    one_for_ada(first)
    one_for_ada(second)
    first.commit()
    with pytest.raises(SerializationFailure):
        second.commit()
    again_after_40001(second, one_for_ada)
    assert count(world) == (1, 1)


@each_level
def test_single_calls_in_opposite_orders_may_deadlock_and_then_one_is_told(world, begin, level):
    """What `schedule_many` avoids by its order: here the caller's own order counts."""
    wanted = [world.wanted(), world.wanted()]
    first, second = begin(level), begin(level)
    reminders.schedule(first, **wanted[0])
    reminders.schedule(second, **wanted[1])
    answer = world.start(reminders.schedule, first, **wanted[1])
    world.waiting_for_a_lock()
    outcomes = []
    try:
        reminders.schedule(second, **wanted[0])
        outcomes.append("went on")
    except psycopg2.OperationalError as error:
        outcomes.append(error.pgcode)
        second.rollback()
    else:
        second.commit()
    try:
        answer.result(timeout=10)
    except psycopg2.OperationalError as error:
        outcomes.append(error.pgcode)
    assert "40P01" in outcomes

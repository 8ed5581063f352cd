"""Reminders that are revived while others wait for them: whoever locks them does so in one order, and nobody deadlocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import NOW

TOMORROW = NOW + timedelta(days=1)
LOCK_ORDER = "SELECT reminders.lock_rows(%s::uuid[])"


def two_ended(world):
    """In the order of their ids."""
    ids = sorted(world.schedule(reference="invoice-17", slot=slot).id for slot in ("a", "b"))
    for each in ids:
        assert world.committed(reminders.cancel, each) == "cancelled"
    return ids


def lock(connection, ids):
    with connection.cursor() as cursor:
        cursor.execute(LOCK_ORDER, ([str(each) for each in ids],))


@pytest.mark.parametrize("call", [reminders.reschedule, reminders.cancel], ids=["moved", "cancelled"])
def test_many_are_locked_while_one_of_them_is_revived_and_moved_again(world, call):
    """Who revived it first holds its row of `due` and waits for the reminder's, which was locked by whoever takes many."""
    first, last = two_ended(world)
    other, reviver, many = world.connect(), world.connect(), world.connect()
    reminders.reschedule(other, last, due_at=TOMORROW)
    reminders.reschedule(reviver, first, due_at=TOMORROW)
    locking = world.start(lock, many, [first, last])
    world.waiting_for_a_lock()
    reviver.commit()
    # It has that reminder's row by now, and waits for the other one: whoever comes must not be there before it.
    world.waiting_for(many, other)
    named = {"due_at": TOMORROW + timedelta(hours=1)} if call is reminders.reschedule else {}
    again = world.start(world.committed, call, first, **named)
    world.waiting_for_a_lock(2)
    other.commit()
    again.result(timeout=10)
    locking.result(timeout=10)
    # All of it is locked now: whoever comes waits.
    later = world.start(world.committed, reminders.reschedule, first, due_at=TOMORROW + timedelta(hours=2))
    world.waiting_for_a_lock()
    many.commit()
    later.result(timeout=10)
    assert [world.status(each)[0] for each in (first, last)] == ["pending", "pending"]


def test_what_is_revived_by_many_at_once_is_moved_by_each(world):
    """One reminder, which lives and ends and lives again: they take turns."""
    made = world.schedule(due_at=TOMORROW)

    def work(number):
        for round_ in range(40):
            if number % 2:
                world.committed(reminders.cancel, made.id)
            else:
                world.committed(
                    reminders.reschedule, made.id, due_at=TOMORROW + timedelta(minutes=1 + number * 40 + round_)
                )

    for each in [world.start(work, number) for number in range(6)]:
        each.result(timeout=60)
    assert world.status(made.id)[0] in {"pending", "cancelled"}

"""A purge against callers whose transactions are older than it: none of them makes a second reminder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg2.errors
import pytest
from psycopg2.extensions import ISOLATION_LEVEL_READ_COMMITTED, ISOLATION_LEVEL_REPEATABLE_READ

import reminders
from integration.ledger.test_ledger_schedule_twice import _identity
from integration.ledger.world import PATIENCE, ScriptedProvider, until
from reminders.ledger import purging
from reminders.ledger.caller import fetch
from reminders.operate.retention import Purged, purge

LEVELS = {"READ COMMITTED": ISOLATION_LEVEL_READ_COMMITTED, "REPEATABLE READ": ISOLATION_LEVEL_REPEATABLE_READ}
isolations = pytest.mark.parametrize("isolation", LEVELS.values(), ids=LEVELS)


def run(world, patience: float = 0.0) -> Purged:
    """One that is to delete has patience with what else was open when it was marked, such as Postgres's own upkeep."""
    return purge(world.database, 86400.0, now=datetime.now(UTC) + timedelta(days=2), patience=patience)


def caller(world, isolation):
    connection = world.connect()
    connection.set_session(isolation_level=isolation)
    return connection


def cancelled(world, wanted):
    made = world.committed(reminders.schedule, **wanted)
    world.committed(reminders.cancel, made.id)
    return made


def begun(connection) -> None:
    """The transaction has its snapshot."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders LIMIT 1")


def rows(world) -> list[tuple[str, str]]:
    """Identity and id of every reminder that was ever made and can be known."""
    return world.sql("""SELECT encode(identity_key, 'hex'), id::text FROM reminders.reminders
                        UNION SELECT encode(identity_key, 'hex'), reminder_id::text FROM reminders.keys_seen""")


@isolations
def test_what_began_before_the_mark_keeps_the_row(world, isolation):
    wanted = world.wanted()
    made = cancelled(world, wanted)
    old = caller(world, isolation)
    begun(old)
    assert run(world).marked == 1
    done = run(world)
    assert (done.purged, done.waiting) == (0, 1)
    again = reminders.schedule(old, **wanted)
    assert (again.id, again.created) == (made.id, False)
    old.commit()
    done = run(world, PATIENCE)
    assert (done.purged, done.waiting) == (1, 0)
    assert len(rows(world)) == 1


@isolations
def test_what_began_after_the_mark_and_meets_the_delete_finds_the_mark(world, isolation):
    wanted = world.wanted()
    made = cancelled(world, wanted)
    run(world)
    young = caller(world, isolation)
    begun(young)
    with world.database.transaction() as deleting:
        with deleting.cursor() as cursor:
            cursor.execute("DELETE FROM reminders.reminders WHERE id = %s", (str(made.id),))
        answer = world.start(reminders.schedule, young, **wanted).result(timeout=10)
    assert (answer.id, answer.status, answer.created) == (made.id, "cancelled", False)
    again = reminders.schedule(young, **wanted)
    assert (again.id, again.status, again.created) == (made.id, "cancelled", False)
    young.commit()
    assert len(rows(world)) == 1


@isolations
def test_a_statement_that_waits_elsewhere_while_its_next_row_is_marked_makes_no_second_one(world, isolation):
    low, high = sorted((world.wanted(), world.wanted()), key=_identity)
    made = cancelled(world, high)
    first = world.connect()
    reminders.schedule(first, **low)
    many = world.start(reminders.schedule_many, caller(world, isolation), [low, high])
    world.waiting_for_a_lock()
    assert run(world).marked == 1
    assert (run(world).purged, run(world).purged) == (0, 0)
    first.rollback()
    answers = many.result(timeout=10)
    assert [each.created for each in answers] == [True, False]
    assert answers[1].id == made.id


@isolations
def test_without_the_purges_wait_it_would_make_a_second_one(world, isolation):
    """The test above can fail: it stands on the wait, and on no other guard."""
    low, high = sorted((world.wanted(), world.wanted()), key=_identity)
    made = cancelled(world, high)
    first = world.connect()
    reminders.schedule(first, **low)
    caught = caller(world, isolation)
    many = world.start(reminders.schedule_many, caught, [low, high])
    world.waiting_for_a_lock()
    run(world)
    world.sql("UPDATE reminders.purges SET settled_at = now()")
    assert run(world).purged == 1
    first.rollback()
    second = many.result(timeout=10)[1]
    assert second.created
    assert second.id != made.id
    caught.rollback()


def test_a_transaction_that_began_after_the_mark_is_not_waited_for(world):
    cancelled(world, world.wanted())
    run(world)
    begun(caller(world, ISOLATION_LEVEL_REPEATABLE_READ))
    assert run(world, PATIENCE).purged == 1


def test_a_mark_whose_pass_was_broken_off_waits_too(world):
    """The process died after its marks were committed and before it looked at who was there."""
    wanted = world.wanted()
    made = cancelled(world, wanted)
    current = purging.join_pass(world.database, 86400.0, datetime.now(UTC) + timedelta(days=2))
    assert purging.step(world.database, current, 1, 100) == purging.Step(1, 0, more=True)
    old = caller(world, ISOLATION_LEVEL_REPEATABLE_READ)
    begun(old)
    assert (run(world).purged, run(world).purged) == (0, 0)
    assert reminders.schedule(old, **wanted).id == made.id
    old.rollback()
    assert run(world, PATIENCE).purged == 1


@pytest.mark.parametrize("act", ["cancel", "reschedule"])
@isolations
def test_whoever_waits_for_a_row_that_is_purged_is_told_so(world, isolation, act):
    made = world.schedule()
    world.committed(reminders.cancel, made.id)
    run(world)
    until(lambda: purging.settle(world.database) == 0, "nothing is open that was open before the mark")
    call = reminders.cancel if act == "cancel" else partial(reminders.reschedule, due_at=world.now)
    deleting = world.connect()
    current = purging.join_pass(world.database, 86400.0, datetime.now(UTC) + timedelta(days=2))
    given = {"purge": str(current.id), "cutoff": world.now + timedelta(days=1), "age": 86400.0, "size": 1, "room": 100}
    fetch(deleting, "reminders", purging.HOLD, **given)
    given.pop("size"), given.pop("room")
    assert fetch(deleting, "reminders", purging.ACT, **given) == [(0, 1, True)]
    waiting = world.start(call, caller(world, isolation), made.id)
    world.waiting_for_a_lock()
    deleting.commit()
    expected = (
        reminders.NotFound if isolation == ISOLATION_LEVEL_READ_COMMITTED else psycopg2.errors.SerializationFailure
    )
    with pytest.raises(expected, match=r"was purged on|could not serialize"):
        waiting.result(timeout=10)


def test_a_redrive_and_a_purge_at_once(world):
    """The redrive has the row: it goes on, and the purge passes it over. The purge has it: the redrive says busy."""
    from integration.ledger.operators import not_sent, redriven, why
    from reminders.domain.outcomes import Rejected

    made = world.schedule()
    world.finalize(world.opened(made), Rejected("gone", "refused", status_code=404))
    assert not_sent(world, made).done == [made.id]
    run(world)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders FOR UPDATE")
    assert why(redriven(world, made)) == ["busy"]
    assert run(world).purged == 0
    holder.rollback()
    assert redriven(world, made).done == [made.id]
    assert run(world).purged == 0
    world.published()
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"

"""What meets what, where it matters who commits first: each on connections of its own, held in place by locks and barriers."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier

import psycopg2.errors
import pytest

import reminders
from integration.ledger.world import CLAIM, NOW, ScriptedProvider
from reminders.domain.errors import Refused
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.ledger import closing_letters
from reminders.ledger.claiming import CLAIM as CLAIM_STATEMENT

DONE, AGAIN = Delivered("r"), Retry("busy", "")
LOST, NO = Unknown("reset", ""), Rejected("gone", "refused")
TOMORROW = NOW + timedelta(days=1)


def claim_uncommitted(world, made, worker="other"):
    """The connection of another worker whose claim is made and not committed."""
    connection = world.connect()
    bound = world.database.bound(CLAIM_STATEMENT)
    given = {
        "ids": [str(made.id)], "keys": [made.delivery_key], "seconds": [CLAIM], "tokens": [str(uuid7())], "worker": worker,
        "formats": '{"log": 1}', "window": 604800.0, "dispatcher": "main", "new_tenants": "live",
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(bound.plain, bound.arguments(given))
        assert len(cursor.fetchall()) == 1
    return connection


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "is lost"])
def test_a_second_claim_meets_one_that_is_not_committed(world, commits):
    """It waits for nobody: it finds the row busy, asks again, and takes what the first has left."""
    made = world.schedule()
    world.published()
    first = claim_uncommitted(world, made)
    provider, pauses = ScriptedProvider(), []

    def pause(_):
        if not pauses:
            first.commit() if commits else first.rollback()
        pauses.append(1)

    answer = world.deliver(provider, pause=pause)(made.id, made.delivery_key)
    assert (answer, len(provider.calls)) == (("claimed", 0) if commits else ("delivered", 1))
    assert len(pauses) == 1
    assert world.column("notification_deliveries", "worker", made.id) == ("other" if commits else "worker-1")


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "is lost"])
def test_a_move_waits_for_a_claim_under_way_and_is_then_refused(world, commits):
    made = world.schedule()
    world.published()
    first = claim_uncommitted(world, made)
    answer = world.start(world.committed, reminders.reschedule, made.id, due_at=TOMORROW)
    world.waiting_for_a_lock()
    first.commit() if commits else first.rollback()
    if commits:
        with pytest.raises(Refused, match="being sent"):
            answer.result(timeout=10)
        assert world.status(made.id) == ("sending", "sending")
    else:
        moved = answer.result(timeout=10)
        assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "superseded"
        assert world.status(made.id) == ("pending", None)
        assert moved.version == 2


def test_a_claim_and_a_move_at_once_never_both_succeed(world):
    """The claim gives way to a move that holds the row; a move waits for a claim that does, and is refused."""
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(8)])
    world.published()
    barrier = Barrier(16)

    def claim(made):
        barrier.wait()
        return world.claim(made)

    def move(made):
        barrier.wait()
        try:
            return world.committed(reminders.reschedule, made.id, due_at=TOMORROW)
        except Refused:
            return None

    at_it = [(made, world.start(claim, made), world.start(move, made)) for made in many]
    for made, claimed, moved in at_it:
        claim_won, move_won = claimed.result(timeout=20) is not None, moved.result(timeout=20) is not None
        assert claim_won != move_won
        assert world.status(made.id)[0] == ("sending" if claim_won else "pending")


@pytest.mark.parametrize("outcome", [DONE, NO, AGAIN], ids=lambda each: each.name)
def test_a_lapsed_outcome_that_comes_while_a_redrive_is_under_way_completes_the_record(world, outcome, monkeypatch):
    """A frozen worker wakes while an operator's redrive holds the rows: a success waits for it, for the next claim to find."""
    made = world.schedule(deduplicates=False)
    old = world.opened(made, worker="frozen")
    world.repair()
    late = []
    examined = closing_letters._examined

    def while_it_holds_the_rows(*arguments, **named):
        if not late:
            late.append(world.start(world.finalize, old, outcome))
            world.waiting_for_a_lock() if outcome is DONE else late[0].result(timeout=10)
        return examined(*arguments, **named)

    monkeypatch.setattr(closing_letters, "_examined", while_it_holds_the_rows)
    assert world.redrive(made, checked=True) == [made.id]
    assert late[0].result(timeout=10) == "lapsed"
    assert world.status(made.id) == ("pending", "retrying")
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    world.published()
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "delivered"
    assert len(provider.calls) == (0 if outcome is DONE else 1)


@pytest.mark.parametrize("outcome", [AGAIN, DONE], ids=lambda each: each.name)
@pytest.mark.usefixtures("patient")
def test_an_outcome_and_the_repair_of_its_claim_at_once_are_taken_in_turn(world, outcome):
    """The claim's time has passed, and its worker reports just while the scan repairs it: one row, and nothing lost."""
    made = world.schedule()
    claim = world.opened(made)
    scan = world.scanning(now=world.lapse(CLAIM + 1)).ledger
    with scan.repair(10) as moves:
        answer = world.start(world.finalize, claim, outcome)
        world.waiting_for_a_lock()
        moves.repeat(moves.lapsed)
    assert answer.result(timeout=10) == "lapsed"
    assert world.status(made.id) == ("pending", "retrying")
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]


@pytest.mark.parametrize(
    ("outcome", "then", "letters"),
    [
        (DONE, ("delivered", "delivered"), []),
        (NO, ("dead", "dead"), [("destination", "open", "gone")]),
        (AGAIN, ("expired", "expired"), []),
        (LOST, ("dead", "unknown"), [("unknown", "open", "expired_while_uncertain")]),
        (None, ("dead", "unknown"), [("unknown", "open", "expired_while_uncertain")]),
    ],
    ids=["delivered", "rejected", "retry", "unknown", "never reported"],
)
def test_what_expires_under_an_open_claim_ends_by_what_the_call_comes_to(world, outcome, then, letters):
    """The claim stands whatever the time; only another attempt is out of the question."""
    made = world.schedule(expires_at=world.lapse(10))
    claim = world.opened(made)
    late = world.lapse(CLAIM + 2)
    if outcome is None:
        world.repair()
    else:
        world.finalize(claim, outcome, now=world.lapse(15))
    if world.status(made.id)[0] == "pending":
        world.published(late)
        provider = ScriptedProvider()
        world.deliver(provider, now=late)(made.id, made.delivery_key)
        assert provider.calls == []
    assert world.status(made.id) == then
    assert world.letters(made.id) == letters


def test_two_transactions_that_cancel_the_same_in_opposite_orders_deadlock_for_a_second_and_one_wins(world):
    """Postgres ends one of them; nothing hangs, no worker is concerned, and the loser repeats its transaction."""
    first, second = world.schedule(), world.schedule()
    world.published()
    one, other = world.connect(), world.connect()
    assert reminders.cancel(one, first.id) == "cancelled"
    assert reminders.cancel(other, second.id) == "cancelled"
    crossing = [world.start(reminders.cancel, one, second.id)]
    world.waiting_for_a_lock()
    # Both rows are held already as they will be in the second that begins when the other one waits too.
    deliver = world.deliver(ScriptedProvider())
    assert {deliver(made.id, made.delivery_key) for made in (first, second)} == {"busy"}
    crossing.append(world.start(reminders.cancel, other, first.id))
    lost = [connection for connection, each in zip((one, other), crossing, strict=True) if each.exception(timeout=10)]
    assert [type(each.exception()) for each in crossing if each.exception()] == [psycopg2.errors.DeadlockDetected]
    (winner,) = {one, other} - set(lost)
    winner.commit()
    lost[0].rollback()
    for made in (first, second):
        assert reminders.cancel(lost[0], made.id) == "cancelled"
    lost[0].commit()
    assert {deliver(made.id, made.delivery_key) for made in (first, second)} == {"cancelled"}


def test_transactions_that_cancel_many_in_one_order_wait_for_each_other_and_never_deadlock(world):
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(40)])
    in_order = sorted(made.id for made in many)
    barrier = Barrier(4)

    def cancel_all():
        barrier.wait()
        with world.connect() as connection:
            return [reminders.cancel(connection, reminder_id) for reminder_id in in_order]

    for each in [world.start(cancel_all) for _ in range(4)]:
        assert each.result(timeout=20) == ["cancelled"] * 40
    assert world.sql("SELECT 1 FROM reminders.due") == []


@pytest.mark.usefixtures("impatient")
def test_one_open_transaction_that_cancelled_many_stops_neither_scan_nor_claims_nor_outcomes_nor_repair(world):
    """Each of its rows is at another stage; the others' work goes on, and what it held is put right once it has gone."""
    stages = ("pending", "published", "open claim", "lapsed claim")
    lapsed_at = world.lapse(-CLAIM - 5)
    held = {stage: world.schedule(due_at=world.now - timedelta(minutes=10)) for stage in stages}
    free = {stage: world.schedule(due_at=world.now - timedelta(minutes=10)) for stage in stages}
    later = [held["pending"], free["pending"]]
    for made in later:
        world.sql("UPDATE reminders.due SET wake_at = now() + interval '1 hour' WHERE id = %s", str(made.id))
    world.published(lapsed_at)
    claims = {made.id: world.claim(made) for made in (held["open claim"], free["open claim"])}
    for made in (held["lapsed claim"], free["lapsed claim"]):
        assert world.claim(made, now=lapsed_at) is not None
    for made in later:
        world.sql("UPDATE reminders.due SET wake_at = now() WHERE id = %s", str(made.id))
    caller = world.connect()
    answers = {stage: reminders.cancel(caller, made.id) for stage, made in held.items()}
    assert answers == {
        "pending": "cancelled", "published": "cancelled", "open claim": "requested", "lapsed claim": "requested",
    }  # fmt: skip

    deliver = world.deliver(ScriptedProvider())
    assert deliver(held["published"].id, held["published"].delivery_key) == "busy"
    assert deliver(free["published"].id, free["published"].delivery_key) == "delivered"
    assert world.finalize(claims[held["open claim"].id], AGAIN) == "parked"
    assert world.finalize(claims[free["open claim"].id], AGAIN) == "parked"
    scan = world.start(world.scanning().once)
    scan.result(timeout=10)
    sent = {message.reminder_id for message in world.broker.take()}
    assert sent == {free["pending"].id, free["lapsed claim"].id}
    assert world.attempts(free["lapsed claim"].id) == [(1, "unknown", "worker_lost")]
    assert world.attempts(held["lapsed claim"].id) == []

    caller.commit()
    world.repair()
    assert {stage: world.status(made.id)[0] for stage, made in held.items()} == {
        "pending": "cancelled", "published": "cancelled", "open claim": "cancelled", "lapsed claim": "dead",
    }  # fmt: skip
    assert world.letters(held["lapsed claim"].id) == [("unknown", "open", "worker_lost")]

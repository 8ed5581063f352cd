"""Cancelled means cancelled: what `cancel` answers, and that no attempt follows it (G5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import CLAIM, NOW, ScriptedProvider
from reminders import Refused
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)
NO = Rejected("gone", "refused")


def cancel(world, made):
    return world.committed(reminders.cancel, made.id)


def claim_by_hand(holder, made):
    """What a claim writes, in a transaction that stays open."""
    with holder.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token,"
            " claimed_at, claimed_until, worker, on_unknown, body_format) VALUES (%s, %s, 'sending', 1, gen_random_uuid(),"
            " now(), now() + interval '30 s', 'other', 'repeat', 1)",
            (made.delivery_key, str(made.id)),
        )
        cursor.execute("UPDATE reminders.due SET status = 'sending' WHERE id = %s", (str(made.id),))


@pytest.mark.parametrize("stage", ["pending", "leased", "published"])
def test_before_a_claim_nothing_is_ever_sent(world, stage):
    made = world.schedule()
    if stage == "leased":
        world.broker.accepts = 0
        world.scanning().once()
    elif stage == "published":
        assert len(world.published()) == 1
    assert world.status(made.id)[0] == stage
    assert cancel(world, made) == "cancelled"
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "cancelled"
    assert provider.calls == []
    assert cancel(world, made) == "cancelled"
    assert world.column("due", "status", made.id) is None


def test_a_cancel_that_is_rolled_back_cancels_nothing(world):
    made = world.schedule()
    connection = world.connect()
    assert reminders.cancel(connection, made.id) == "cancelled"
    connection.rollback()
    assert [message.reminder_id for message in world.published()] == [made.id]


def test_cancel_wins_over_a_claim_that_finds_the_row_locked(world):
    made = world.schedule()
    world.published()
    connection = world.connect()
    assert reminders.cancel(connection, made.id) == "cancelled"
    provider, pauses = ScriptedProvider(), []
    assert world.deliver(provider, pause=pauses.append)(made.id, made.delivery_key) == "busy"
    assert len(pauses) >= 3
    assert 0.15 <= sum(pauses) <= 0.5
    connection.commit()
    assert world.deliver(provider)(made.id, made.delivery_key) == "cancelled"
    assert provider.calls == []


def test_cancel_committed_while_the_claim_asks_again_is_seen(world):
    made = world.schedule()
    world.published()
    connection = world.connect()
    reminders.cancel(connection, made.id)
    provider = ScriptedProvider()
    deliver = world.deliver(provider, pause=lambda _: connection.commit())
    assert deliver(made.id, made.delivery_key) == "cancelled"
    assert provider.calls == []


def test_a_cancel_rolled_back_while_the_claim_asks_again_lets_it_through(world):
    made = world.schedule()
    world.published()
    connection = world.connect()
    reminders.cancel(connection, made.id)
    deliver = world.deliver(ScriptedProvider(), pause=lambda _: connection.rollback())
    assert deliver(made.id, made.delivery_key) == "delivered"


@pytest.mark.parametrize(
    ("outcome", "status", "answer"),
    [
        (Delivered(), ("delivered", "delivered"), "too_late"),
        (AGAIN, ("cancelled", "cancelled"), "cancelled"),
        (NO, ("cancelled", "cancelled"), "cancelled"),
        (LOST, ("dead", "unknown"), "maybe_sent"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_during_the_call_it_is_requested_and_no_attempt_follows(world, outcome, status, answer):
    made = world.schedule()
    claim = world.opened(made)
    assert cancel(world, made) == "requested"
    assert cancel(world, made) == "requested"
    world.finalize(claim, outcome)
    assert world.status(made.id) == status
    assert cancel(world, made) == answer
    assert world.published(world.lapse(10 * 86400)) == []
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]


def test_during_the_call_after_an_unknown_attempt_a_retry_goes_to_review(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    claim = world.opened(made, now=world.lapse(60))
    assert cancel(world, made) == "requested"
    world.finalize(claim, AGAIN)
    assert world.status(made.id) == ("dead", "unknown")
    assert cancel(world, made) == "maybe_sent"


@pytest.mark.parametrize("stage", ["pending", "leased", "published"])
def test_after_an_unknown_attempt_it_may_have_been_sent_and_goes_to_review(world, stage):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    if stage == "leased":
        world.broker.accepts = 0
        world.scanning(now=world.lapse(60)).once()
    elif stage == "published":
        world.published(world.lapse(60))
    assert world.status(made.id)[0] == stage
    assert cancel(world, made) == "maybe_sent"
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "cancelled_while_uncertain")]
    assert cancel(world, made) == "maybe_sent"
    assert world.published(world.lapse(10 * 86400)) == []


def test_a_worker_that_dies_after_a_requested_cancel_leaves_a_case_for_review(world):
    made = world.schedule()
    world.opened(made)
    assert cancel(world, made) == "requested"
    assert world.repair() == 1
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "worker_lost")]


def test_a_claim_given_back_after_a_requested_cancel_is_cancelled(world):
    made = world.schedule()
    claim = world.opened(made)
    assert cancel(world, made) == "requested"
    world.finalizing().give_back(claim, 1.0)
    assert world.status(made.id) == ("cancelled", "cancelled")
    assert world.attempts(made.id) == []


def test_a_claim_given_back_after_a_requested_cancel_is_for_review_if_an_earlier_attempt_is_unknown(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    claim = world.opened(made, now=world.lapse(60))
    assert cancel(world, made) == "requested"
    world.finalizing().give_back(claim, 1.0)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "cancelled_while_uncertain")]
    assert cancel(world, made) == "maybe_sent"


def test_a_dead_reminder_is_cancelled_and_its_letter_closed(world):
    made = world.schedule()
    world.finalize(world.opened(made), NO)
    assert world.status(made.id) == ("dead", "dead")
    assert cancel(world, made) == "cancelled"
    assert world.status(made.id) == ("cancelled", "cancelled")
    assert world.letters(made.id) == [("destination", "discarded", "gone")]


def test_an_expired_reminder_is_cancelled(world):
    made = world.schedule(expires_at=world.now + timedelta(minutes=5))
    world.published(world.lapse(600))
    assert world.deliver(ScriptedProvider(), now=world.lapse(600))(made.id, made.delivery_key) == "expired"
    assert cancel(world, made) == "cancelled"
    assert world.status(made.id)[0] == "cancelled"


def test_a_late_success_makes_it_too_late(world):
    made = world.schedule()
    claim = world.opened(made)
    world.repair()
    assert world.finalize(claim, Delivered()) == "lapsed"
    assert cancel(world, made) == "too_late"
    (message,) = world.published(world.lapse(60))
    provider = ScriptedProvider()
    assert world.deliver(provider, now=world.lapse(60))(message.reminder_id, message.delivery_key) == "delivered"
    assert provider.calls == []


def test_cancel_waits_for_a_claim_under_way_and_then_says_requested(world):
    """The claim's own transaction is open: whoever commits first is who the other sees."""
    made = world.schedule()
    world.published()
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR NO KEY UPDATE", (str(made.id),))
    answer = world.start(cancel, world, made)
    world.waiting_for_a_lock()
    claim_by_hand(holder, made)
    holder.commit()
    assert answer.result(timeout=10) == "requested"


def revived_meanwhile(world, call, *arguments, claimed, **named):
    """The answer of a call on a dead reminder that has no row of `due` to lock, and is given one between the two looks."""
    made = world.schedule()
    world.finalize(world.opened(made), NO)
    holder = world.connect()
    moved = reminders.reschedule(holder, made.id, due_at=world.now - timedelta(minutes=2))
    answer = world.start(world.committed, call, made.id, *arguments, **named)
    world.waiting_for_a_lock()
    with holder.cursor() as cursor:
        cursor.execute("UPDATE reminders.due SET status = 'leased', lease_token = id WHERE id = %s", (str(made.id),))
    if claimed:
        claim_by_hand(holder, moved)
    holder.commit()
    return moved, answer


def test_a_reminder_revived_and_claimed_between_two_looks_is_not_cancelled_under_its_claim(world):
    moved, answer = revived_meanwhile(world, reminders.cancel, claimed=True)
    assert answer.result(timeout=10) == "requested"
    assert world.status(moved.id) == ("sending", "sending")


@pytest.mark.parametrize(
    ("call", "given"),
    [(reminders.reschedule, {"due_at": NOW + timedelta(days=1)}), (reminders.snooze, {"by": timedelta(days=1)})],
)
def test_a_reminder_revived_and_claimed_between_two_looks_is_not_moved_under_its_claim(world, call, given):
    moved, answer = revived_meanwhile(world, call, claimed=True, **given)
    with pytest.raises(Refused, match="being sent"):
        answer.result(timeout=10)
    assert world.status(moved.id) == ("sending", "sending")


def test_a_reminder_revived_and_leased_between_two_looks_is_cancelled(world):
    moved, answer = revived_meanwhile(world, reminders.cancel, claimed=False)
    assert answer.result(timeout=10) == "cancelled"
    assert world.claim(moved, now=world.lapse(CLAIM)) is None


def test_an_open_transaction_that_cancelled_many_blocks_no_worker(world):
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(64)])
    others = world.committed(reminders.schedule_many, [world.wanted() for _ in range(8)])
    world.published()
    holder = world.connect()
    for made in many:
        reminders.cancel(holder, made.id)
    deliver = world.deliver(ScriptedProvider())
    blocked = [world.start(deliver, made.id, made.delivery_key) for made in many[:16]]
    assert {answer.result(timeout=10) for answer in blocked} == {"busy"}
    assert {deliver(made.id, made.delivery_key) for made in others} == {"delivered"}
    holder.commit()
    assert {deliver(made.id, made.delivery_key) for made in many} == {"cancelled"}


def test_bulk_cancels_in_opposite_orders_against_claims_end_without_a_deadlock(world):
    """Each cancel locks `due`, then the ledger's row, as the claim and finalize do; in one order no one can deadlock."""
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(20)])
    world.published()
    deliver = world.deliver(ScriptedProvider())

    def cancel_all(reminder_ids):
        for reminder_id in reminder_ids:
            world.committed(reminders.cancel, reminder_id)

    work = [
        world.start(cancel_all, [made.id for made in many]),
        world.start(cancel_all, [made.id for made in many[::-1]]),
        *[world.start(deliver, made.id, made.delivery_key) for made in many],
    ]
    for each in work:
        each.result(timeout=30)
    for made in many:
        status = world.status(made.id)[0]
        assert status in {"cancelled", "delivered"}

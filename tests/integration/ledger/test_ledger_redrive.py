"""Sending dead letters again: a fresh budget under the same key, and never what is delivered or unknown unchecked."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier

import pytest

import reminders
from integration.ledger.operators import WORD
from integration.ledger.world import CLAIM, MAX_WAIT, ScriptedProvider
from reminders import InvalidInput
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.ledger import closing_letters
from reminders.ledger.closing_letters import redrive
from reminders.ledger.review import LetterFilter, letters

NO = Rejected("gone", "refused")
LOST = Unknown("timeout", "no answer", timed_out=True)
AGAIN = Retry("busy", "try later")


def refused(world, **wanted):
    made = world.schedule(**wanted)
    world.finalize(world.opened(made), NO, body_hash=b"\x01" * 32)
    assert world.status(made.id) == ("dead", "dead")
    return made


def test_it_goes_out_again_under_the_same_key_and_the_numbering_goes_on(world):
    made = refused(world)
    assert world.redrive(made) == [made.id]
    assert world.status(made.id) == ("pending", "retrying")
    claim = world.opened(made)
    assert (claim.delivery.delivery_key, claim.claim_number, claim.delivery.attempt) == (made.delivery_key, 2, 2)
    assert claim.body_hash == b"\x01" * 32
    assert world.finalize(claim, Delivered("r")) == "delivered"
    assert [number for number, *_ in world.attempts(made.id)] == [1, 2]
    assert world.letters(made.id) == [("destination", "redriven", "gone")]


def test_it_opens_a_fresh_budget_of_attempts_and_of_waiting(world):
    made = world.schedule()
    world.finalize(world.opened(made), AGAIN)
    late = world.lapse(MAX_WAIT + 3600)
    world.finalize(world.opened(made, now=late), AGAIN, now=late)
    assert world.status(made.id) == ("dead", "dead")
    world.redrive(made)
    claim = world.opened(made, now=late)
    assert (claim.attempts, claim.waited) == (0, 0.0)
    assert world.finalize(claim, AGAIN, now=late) == "parked"


def test_it_can_be_redriven_a_second_time(world):
    made = refused(world)
    world.redrive(made)
    world.finalize(world.opened(made), NO)
    assert world.redrive(made) == [made.id]
    assert [state for _, state, _ in world.letters(made.id)] == ["redriven", "redriven"]


def test_a_double_click_makes_one_attempt(world):
    made = refused(world)
    barrier = Barrier(4)

    def click():
        barrier.wait()
        return world.redrive(made)

    answers = [each.result(timeout=10) for each in [world.start(click) for _ in range(4)]]
    assert sorted(map(len, answers)) == [0, 0, 0, 1]
    assert len(world.published()) == 1


def test_what_is_unknown_goes_only_with_the_word_that_it_was_checked(world):
    made = world.schedule(deduplicates=False)
    world.finalize(world.opened(made), LOST)
    assert world.redrive(made) == []
    assert world.letters(made.id) == [("unknown", "open", "timeout")]
    assert world.redrive(made, checked=True) == [made.id]
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None


def test_a_conviction_leaves_the_outcome_unknown_too(world):
    made = world.schedule()
    at = 0.0
    for _ in range(4):
        world.opened(made, now=world.lapse(at))
        world.repair(at + CLAIM + 1)
        at += CLAIM + 2
    assert world.letters(made.id) == [("pipeline", "open", "worker_lost")]
    assert world.redrive(made) == []
    assert world.redrive(made, checked=True) == [made.id]


def test_what_may_have_killed_its_worker_goes_alone(world):
    made = world.schedule(deduplicates=False)
    world.opened(made)
    world.repair()
    world.redrive(made, checked=True)
    (message,) = world.published()
    assert message.route == "alone"


def test_what_the_destination_refused_goes_with_the_others(world):
    made = refused(world)
    world.redrive(made)
    (message,) = world.published()
    assert message.route == "deliver"


@pytest.mark.parametrize("state", ["delivered", "cancelled", "pending", "expired"])
def test_what_has_no_open_letter_is_left_alone(world, state):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    if state == "delivered":
        world.finalize(world.opened(made), Delivered())
    elif state == "cancelled":
        world.committed(reminders.cancel, made.id)
    elif state == "expired":
        late = world.now + timedelta(hours=2)
        world.published(late)
        world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key)
    assert world.status(made.id)[0] == state
    assert world.redrive(made, checked=True) == []
    assert world.status(made.id)[0] == state


def test_nothing_is_sent_that_somebody_asked_to_cancel(world):
    made = world.schedule(deduplicates=False)
    claim = world.opened(made)
    world.committed(reminders.cancel, made.id)
    world.finalize(claim, LOST)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.redrive(made, checked=True) == []
    late = world.schedule(deduplicates=False)
    world.finalize(world.opened(late), LOST)
    assert world.committed(reminders.cancel, late.id) == "maybe_sent"
    assert world.redrive(late, checked=True) == []


def test_a_rescheduled_reminder_has_no_letter_left(world):
    made = refused(world)
    world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=1))
    assert world.redrive(made) == []
    assert world.letters(made.id) == [("destination", "resolved", "gone")]


def test_rows_that_a_caller_holds_are_skipped_and_can_be_redriven_later(world):
    held, free = refused(world), refused(world)
    holder = world.connect()
    assert reminders.cancel(holder, held.id) == "cancelled"
    assert world.redrive(held, free) == [free.id]
    holder.rollback()
    assert world.redrive(held, free) == [held.id]


def test_a_cancel_that_waits_for_a_redrive_cancels_what_it_finds(world, monkeypatch):
    made = refused(world)
    answers = []
    examined = closing_letters._examined

    def while_it_holds_the_row(*arguments, **named):
        if not answers:
            answers.append(world.start(world.committed, reminders.cancel, made.id))
            world.waiting_for_a_lock()
        return examined(*arguments, **named)

    monkeypatch.setattr(closing_letters, "_examined", while_it_holds_the_row)
    assert world.redrive(made) == [made.id]
    assert answers[0].result(timeout=10) == "cancelled"
    assert world.status(made.id) == ("cancelled", "cancelled")
    assert world.published() == []


@pytest.mark.parametrize(
    "given",
    [
        {"actor": ""},
        {"actor": " "},
        {"reason": ""},
        {"reason": "x" * 501},
        {"actor": "a\x00"},
        {"actor": None},
        {"reason": 7},
    ],
)
def test_who_and_why_are_needed(world, given):
    made = refused(world)
    with pytest.raises(InvalidInput) as caught:
        redrive(world.database, LetterFilter(), **{"actor": "ada", "reason": "fixed", **given})
    assert caught.value.field in given
    assert world.letters(made.id) == [("destination", "open", "gone")]


def test_filters_choose(world):
    one = refused(world, tenant_id="a")
    other = refused(world, tenant_id="b")
    assert [each.reminder_id for each in letters(world.database, LetterFilter(tenant="a"))] == [one.id]
    assert redrive(world.database, LetterFilter(kind="unknown"), **WORD, checked=True).done == []
    assert redrive(world.database, LetterFilter(tenant="b"), **WORD).done == [other.id]
    assert redrive(world.database, LetterFilter(channel="log"), **WORD, limit=1).done == [one.id]


def test_at_most_one_letter_is_open_for_a_reminder(world):
    made = refused(world)
    world.redrive(made)
    world.finalize(world.opened(made), NO)
    assert [state for _, state, _ in world.letters(made.id)].count("open") == 1

"""An outcome that comes after its claim has lapsed changes no state, but its record is completed and a success counts."""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.world import CLAIM, ScriptedProvider
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)
NO = Rejected("gone", "refused")
LATER = CLAIM + 10


def stamped(world, made) -> bool:
    return world.column("notification_deliveries", "confirmed_late_at", made.id) is not None


def frozen(world, **wanted):
    """A reminder whose first worker froze in its call and was repaired; the frozen worker's claim."""
    made = world.schedule(**wanted)
    claim = world.opened(made, worker="frozen")
    assert world.repair() == 1
    return made, claim


def test_a_claim_whose_time_has_passed_but_was_not_repaired_still_stands(world):
    made = world.schedule()
    claim = world.opened(made)
    assert world.finalize(claim, Delivered("r"), now=world.lapse(CLAIM * 10)) == "delivered"
    assert world.status(made.id) == ("delivered", "delivered")


@pytest.mark.parametrize("outcome", [AGAIN, NO, LOST, Delivered("r")], ids=lambda value: value.name)
def test_after_repair_it_changes_no_state_but_completes_the_record(world, outcome):
    made, claim = frozen(world)
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost")]
    before = world.status(made.id)
    assert world.finalize(claim, outcome) == "lapsed"
    assert world.status(made.id) == before == ("pending", "retrying")
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    assert stamped(world, made) == (outcome.name == "delivered")
    assert world.sql("SELECT worker, decision FROM reminders.delivery_attempts")[0] == (
        "frozen",
        "late: the claim had lapsed",
    )


def test_the_record_of_a_recorded_attempt_is_never_rewritten(world):
    made = world.schedule()
    claim = world.opened(made)
    world.finalize(claim, AGAIN)
    assert world.finalize(claim, NO) == "lapsed"
    assert world.attempts(made.id) == [(1, "retry", "busy")]


@pytest.mark.parametrize("outcome", [AGAIN, NO, LOST, Delivered("second")], ids=lambda value: value.name)
def test_a_late_success_with_a_newer_claim_open_ends_it_delivered_whatever_that_comes_to(world, outcome):
    made, old = frozen(world)
    new = world.opened(made, now=world.lapse(LATER))
    assert world.finalize(old, Delivered("first")) == "lapsed"
    assert world.status(made.id) == ("sending", "sending")
    assert world.finalize(new, outcome) == "delivered"
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "delivered", ""), (2, outcome.name, outcome.error_class)]
    assert world.letters(made.id) == []
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    assert world.column("reminders", "last_outcome", made.id) == "delivered"
    expected = "second" if outcome.name == "delivered" else "first"
    assert world.column("notification_deliveries", "provider_reference", made.id) == expected


@pytest.mark.parametrize("outcome", [AGAIN, LOST], ids=lambda value: value.name)
def test_a_late_success_outweighs_a_requested_cancellation(world, outcome):
    made, old = frozen(world)
    new = world.opened(made, now=world.lapse(LATER))
    assert world.committed(reminders.cancel, made.id) == "requested"
    world.finalize(old, Delivered("first"))
    assert world.finalize(new, outcome) == "delivered"
    assert world.committed(reminders.cancel, made.id) == "too_late"


def test_a_late_retry_with_a_newer_claim_open_does_not_touch_it(world):
    made, old = frozen(world)
    new = world.opened(made, now=world.lapse(LATER))
    assert world.finalize(old, AGAIN) == "lapsed"
    assert world.status(made.id) == ("sending", "sending")
    assert not stamped(world, made)
    assert world.finalize(new, Delivered("r")) == "delivered"


def test_the_next_claim_finds_a_late_success_and_does_not_call(world):
    made, old = frozen(world)
    world.finalize(old, Delivered("first"))
    late = world.lapse(LATER)
    world.published(late)
    provider = ScriptedProvider()
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "delivered"
    assert provider.calls == []
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    assert world.column("reminders", "last_outcome", made.id) == "delivered"


def test_a_claim_given_back_after_a_late_success_still_ends_delivered(world):
    made, old = frozen(world)
    new = world.opened(made, now=world.lapse(LATER))
    assert world.committed(reminders.cancel, made.id) == "requested"
    world.finalize(old, Delivered("first"))
    world.finalizing(now=world.lapse(LATER)).give_back(new, 1.0)
    late = world.lapse(LATER + 5)
    world.published(late)
    provider = ScriptedProvider()
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "delivered"
    assert provider.calls == []


def test_repair_finds_a_late_success(world):
    made, old = frozen(world)
    world.opened(made, now=world.lapse(LATER))
    world.finalize(old, Delivered("first"))
    world.repair(LATER + CLAIM + 1)
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "delivered", ""), (2, "unknown", "worker_lost")]


@pytest.mark.parametrize("outcome", [AGAIN, NO, LOST, Delivered("second")], ids=lambda value: value.name)
@pytest.mark.usefixtures("impatient")
def test_repair_finds_a_late_success_behind_an_outcome_recorded_alone(world, outcome):
    made, old = frozen(world)
    new = world.opened(made, now=world.lapse(LATER))
    holder = world.connect()
    assert reminders.cancel(holder, made.id) == "requested"
    world.finalize(new, outcome)
    world.finalize(old, Delivered("first"))
    holder.rollback()
    assert world.repair(LATER + CLAIM + 1) == 1
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "delivered", ""), (2, outcome.name, outcome.error_class)]
    assert world.letters(made.id) == []


def test_a_late_success_ends_what_was_given_up_as_unknown(world):
    """As after an outage of Postgres that was longer than the claim: the workers know, nobody need look."""
    made, old = frozen(world, deduplicates=False)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.finalize(old, Delivered("first")) == "lapsed"
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.letters(made.id) == [("unknown", "resolved", "worker_lost")]
    assert world.redrive(made, checked=True) == []
    assert world.published(world.lapse(86400)) == []


@pytest.mark.parametrize("checked", [True, False])
def test_a_redrive_finds_a_late_success_and_closes_the_review(world, checked):
    made, old = frozen(world, deduplicates=False)
    with world.connect() as caller, caller.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders WHERE id = %s FOR UPDATE", (str(made.id),))
        assert world.finalize(old, Delivered("first")) == "lapsed"
    assert world.status(made.id) == ("dead", "unknown"), "an application held the row: the stamp stays for later"
    assert world.redrive(made, checked=checked) == []
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.letters(made.id) == [("unknown", "resolved", "worker_lost")]
    assert world.published(world.lapse(86400)) == []


def test_a_frozen_worker_that_wakes_after_a_redrive_changes_nothing_but_its_record(world):
    made, old = frozen(world, deduplicates=False)
    assert world.redrive(made, checked=True) == [made.id]
    new = world.opened(made)
    assert world.finalize(old, NO) == "lapsed"
    assert world.status(made.id) == ("sending", "sending")
    assert world.finalize(new, Delivered("r")) == "delivered"
    assert world.attempts(made.id) == [(1, "rejected", "gone"), (2, "delivered", "")]


def test_a_late_success_for_a_superseded_key_does_not_end_the_moved_reminder(world):
    made, old = frozen(world, deduplicates=False)
    world.redrive(made, checked=True)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.lapse(86400))
    assert world.finalize(old, Delivered("first")) == "lapsed"
    assert world.status(made.id)[0] == "pending"
    late = world.lapse(86401)
    (message,) = world.published(late)
    assert message.delivery_key == moved.delivery_key
    assert world.deliver(ScriptedProvider(), now=late)(made.id, moved.delivery_key) == "delivered"

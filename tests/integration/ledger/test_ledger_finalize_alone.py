"""Finalize waits for no caller: the outcome is recorded alone, and the claim's end carries it over (G4, G6, G7)."""

from __future__ import annotations

import time

import pytest

import reminders
from integration.ledger.world import CLAIM
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.ledger import finalizing, giving_back

AGAIN = Retry("busy", "try later", status_code=503)
LOST = Unknown("timeout", "no answer", timed_out=True)
NO = Rejected("gone", "refused", status_code=404)


def hold(world, made):
    """A caller that has asked to cancel and does not commit."""
    connection = world.connect()
    assert reminders.cancel(connection, made.id) == "requested"
    return connection


@pytest.mark.parametrize(
    ("outcome", "committed", "rolled_back"),
    [
        (Delivered("r"), ("delivered", "delivered"), ("delivered", "delivered")),
        (AGAIN, ("cancelled", "cancelled"), ("pending", "retrying")),
        (NO, ("cancelled", "cancelled"), ("dead", "dead")),
        (LOST, ("dead", "unknown"), ("pending", "retrying")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@pytest.mark.usefixtures("impatient")
def test_finalize_waits_for_no_caller_and_the_claims_end_carries_its_outcome_over(
    world, outcome, committed, rolled_back, commits
):
    made = world.schedule()
    claim = world.opened(made)
    holder = hold(world, made)
    world.finalize(claim, outcome)
    assert world.status(made.id)[0] == "sending"
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    assert world.repair() == 0
    holder.commit() if commits else holder.rollback()
    assert world.repair() == 1
    assert world.status(made.id) == (committed if commits else rolled_back)
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    uncertain = world.column("notification_deliveries", "uncertain_since", made.id)
    assert (uncertain is not None) == (outcome is LOST)
    assert world.column("reminders", "last_outcome", made.id) == outcome.name
    if world.status(made.id)[0] == "pending":
        assert world.column("due", "attempts", made.id) == 1
    letters = [("unknown", "open", "timeout")] if outcome is LOST and commits else []
    letters += [("destination", "open", "gone")] if outcome is NO and not commits else []
    assert world.letters(made.id) == letters


@pytest.mark.usefixtures("impatient")
def test_an_uncertain_delivery_confirmed_while_a_caller_holds_the_row_is_certain(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    claim = world.opened(made, now=world.lapse(60))
    holder = hold(world, made)
    world.finalize(claim, Delivered("r"))
    holder.commit()
    world.repair(60 + CLAIM + 1)
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None


@pytest.mark.parametrize("deduplicates", [True, False])
@pytest.mark.usefixtures("impatient")
def test_a_claim_given_back_while_a_caller_holds_the_row_burns_nothing_and_raises_no_alarm(world, deduplicates):
    made = world.schedule(deduplicates=deduplicates)
    claim = world.opened(made)
    holder = hold(world, made)
    assert world.finalizing().give_back(claim, 1.0) == "given_back"
    holder.rollback()
    assert world.repair() == 1
    assert world.status(made.id) == ("pending", "retrying")
    assert world.column("due", "attempts", made.id) == 0
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    assert world.attempts(made.id) == []


def test_as_shipped_it_waits_half_a_second_at_most(world):
    made = world.schedule()
    claim = world.opened(made)
    holder = hold(world, made)
    asked = time.monotonic()
    world.finalize(claim, AGAIN)
    assert 0.4 < time.monotonic() - asked < 10  # what is beyond its patience is the machine's
    assert finalizing.LOCK_TIMEOUT_MS == giving_back.LOCK_TIMEOUT_MS == 500
    holder.rollback()


@pytest.mark.usefixtures("patient")
def test_finalize_waits_for_a_lock_that_is_gone_in_a_moment(world):
    made = world.schedule()
    claim = world.opened(made)
    holder = hold(world, made)
    answer = world.start(world.finalize, claim, AGAIN)
    world.waiting_for_a_lock()
    holder.rollback()
    assert answer.result(timeout=10) == "parked"
    assert world.status(made.id) == ("pending", "retrying")

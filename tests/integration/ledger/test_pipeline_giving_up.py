"""Reminders that are too late to be sent end at that instant, wherever they wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import CLAIM, NOW, ScriptedProvider
from reminders.domain.outcomes import Retry, Unknown

HOUR = 3600.0
EXPIRES = NOW + timedelta(days=1)


def at(seconds: float):
    """So many seconds after the expiry of `EXPIRES`."""
    return EXPIRES + timedelta(seconds=seconds)


def gave_up(world, seconds):
    world.scanning(now=at(seconds)).once()


@pytest.mark.parametrize("stage", ["pending", "leased", "published"])
def test_it_expires_at_its_instant_wherever_it_waits(world, stage):
    """Not when its lease or its message's deadline has passed as well."""
    made = world.schedule(expires_at=EXPIRES)
    if stage != "pending":
        world.broker.accepts = 0 if stage == "leased" else None
        world.scanning(now=at(-5)).once()
    assert world.status(made.id) == (stage, None)
    assert world.column("due", "wake_at <= give_up_at", made.id)
    gave_up(world, 1)
    assert world.status(made.id) == ("expired", None)
    assert world.deliver(ScriptedProvider(), now=at(2))(made.id, made.delivery_key) == "expired"


def test_no_wait_is_longer_than_the_expiry(world):
    made = world.schedule(expires_at=EXPIRES)
    late = at(-10)
    world.scanning(now=late).once()
    assert world.column("due", "wake_at", made.id) == EXPIRES
    claim = world.claim(made, now=late)
    assert world.column("due", "wake_at", made.id) > EXPIRES, "an open claim has its time"
    world.finalize(claim, Retry("busy", ""), now=late)
    assert world.column("due", "wake_at", made.id) <= EXPIRES


def test_an_open_claim_is_left_to_its_worker(world):
    made = world.schedule(expires_at=EXPIRES)
    claim = world.opened(made, now=at(-5))
    gave_up(world, 1)
    assert world.status(made.id) == ("sending", "sending")
    world.finalize(claim, Retry("busy", ""), now=at(2))
    gave_up(world, 3)
    assert world.status(made.id) == ("expired", "expired")


def test_an_uncertain_one_goes_to_review(world):
    made = world.schedule(expires_at=EXPIRES)
    world.finalize(world.opened(made), Unknown("reset", ""))
    gave_up(world, 1)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "expired_while_uncertain")]


def test_one_that_a_late_success_has_settled_ends_delivered(world):
    made = world.schedule(expires_at=EXPIRES)
    claim = world.opened(made)
    world.repair()
    world.finalize(claim, Unknown("reset", ""))
    world.sql("UPDATE reminders.notification_deliveries SET confirmed_late_at = now()")
    gave_up(world, 1)
    assert world.status(made.id) == ("delivered", "delivered")


@pytest.mark.parametrize("attempted", [True, False])
def test_one_that_has_waited_as_long_as_it_may_becomes_a_letter_that_can_be_redriven(world, attempted):
    made = world.schedule()
    if attempted:
        world.finalize(world.opened(made), Retry("busy", ""))
    world.sql("UPDATE reminders.due SET give_up_at = GREATEST(wake_at, now()) + interval '1 hour'")
    gave_up(world, HOUR)
    assert world.letters(made.id) == [("destination", "open", "waited_too_long")]
    assert world.status(made.id)[0] == "dead"
    assert world.redrive(made) == [made.id]
    world.published(at(HOUR))
    assert world.deliver(ScriptedProvider(), now=at(HOUR))(made.id, made.delivery_key) == "delivered"


def test_many_end_in_few_moves_and_the_rest_goes_out(world):
    doomed = [world.schedule(expires_at=EXPIRES) for _ in range(25)]
    fresh = world.schedule()
    scan = world.scanning(now=at(1), batch=10)
    for _ in range(3):
        scan.once()
    assert {world.status(each.id)[0] for each in doomed} == {"expired"}
    assert [message.reminder_id for message in world.broker.sent] == [fresh.id]


def test_a_caller_that_holds_one_is_not_waited_for(world):
    made, other = world.schedule(expires_at=EXPIRES), world.schedule(expires_at=EXPIRES)
    holder = world.connect()
    reminders.cancel(holder, made.id)
    world.start(gave_up, world, 1).result(timeout=60)
    assert world.status(other.id)[0] == "expired"
    holder.commit()
    assert world.status(made.id)[0] == "cancelled"


def test_a_later_expiry_by_reschedule_counts(world):
    made = world.schedule(expires_at=EXPIRES)
    world.committed(reminders.reschedule, made.id, due_at=at(2 * HOUR), expires_at=at(3 * HOUR))
    gave_up(world, 1)
    assert world.status(made.id)[0] == "pending"
    gave_up(world, 3 * HOUR + CLAIM)
    assert world.status(made.id)[0] == "expired"

"""Every move in the transition tables happens, as Postgres sees it; after every test here no other may have happened."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger import audit, operators, pauses
from integration.ledger.restoring import quarantined
from integration.ledger.tenants import moded
from integration.ledger.world import CLAIM, LEASE, REDELIVER, ScriptedProvider
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.domain.states import DELIVERY_TRANSITIONS, REMINDER_TRANSITIONS

DONE, AGAIN = Delivered("r"), Retry("busy", "")
LOST, NO = Unknown("reset", ""), Rejected("gone", "")
LATE = CLAIM + 10


def leased(world, made, at=0.0):
    world.broker.accepts = 0
    world.scanning(now=world.lapse(at)).once()
    world.broker.accepts = None
    return made


def published(world, made, at=0.0):
    world.published(world.lapse(at))
    return made


def ended(world, outcome, **wanted):
    made = world.schedule(**wanted)
    world.finalize(world.opened(made), outcome)
    return made


def frozen(world, **wanted):
    """Repaired, then reported delivered by the worker that had been frozen."""
    made = world.schedule(**wanted)
    claim = world.opened(made)
    world.repair()
    world.finalize(claim, DONE)
    return made


def expired(world, stage):
    made = stage(world, world.schedule(expires_at=world.lapse(3600)), 3500.0)
    assert world.deliver(ScriptedProvider(), now=world.lapse(3701))(made.id, made.delivery_key) == "expired"
    return made


def given_up(world, made, at=3700.0):
    world.scanning(now=world.lapse(at)).once()
    return made


def waited_too_long(world, made):
    world.sql("UPDATE reminders.due SET give_up_at = wake_at WHERE id = %s", str(made.id))
    return given_up(world, made)


def refused_claim(world, made, stage, at):
    stage(world, made, at)
    world.deliver(ScriptedProvider(), now=world.lapse(at))(made.id, made.delivery_key)


def cancel(world, made):
    return world.committed(reminders.cancel, made.id)


def cancelled(world, made):
    assert cancel(world, made) == "cancelled"
    return made


def expired_while_parked(world):
    made = ended(world, AGAIN, expires_at=world.now + timedelta(hours=1))
    return given_up(world, made)


def move(world, made):
    return world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=1))


def cancelled_under_a_claim(world, outcome, **wanted):
    made = world.schedule(**wanted)
    claim = world.opened(made)
    cancel(world, made)
    world.finalize(claim, outcome)


def recorded_alone(world, outcome, *, commit):
    """Finalized while a caller held the row, and carried over at the claim's end."""
    made = world.schedule()
    claim = world.opened(made)
    holder = world.connect()
    reminders.cancel(holder, made.id)
    world.finalize(claim, outcome)
    holder.commit() if commit else holder.rollback()
    world.repair()


def convicted_and_then_reported_delivered(world):
    made = world.schedule()
    claims = []
    for death in range(4):
        claims.append(world.opened(made, now=world.lapse(death * LATE)))
        world.repair(death * LATE + CLAIM + 1)
    world.finalize(claims[0], DONE)
    return made


def cancelled_while_unknown(world):
    made = ended(world, LOST, deduplicates=False)
    assert cancel(world, made) == "maybe_sent"
    return made


def expired_and_then_reported_delivered(world):
    """Redriven on a person's word that it was not sent, which was wrong; and expired before its turn."""
    made = world.schedule(deduplicates=False, expires_at=world.now + timedelta(hours=1))
    claim = world.opened(made)
    world.repair()
    assert world.redrive(made, checked=True) == [made.id]
    given_up(world, made)
    world.finalize(claim, DONE)
    return made


def suppress(world, made):
    return world.committed(reminders.suppress, tenant_id="tenant-a", user_id="user-1", reason="unsubscribed")


def suppressed(world, made, stage=published, at=0.0):
    """Withdrawn between publish and claim."""
    stage(world, made, at)
    suppress(world, made)
    assert world.deliver(ScriptedProvider(), now=world.lapse(at))(made.id, made.delivery_key) == "suppressed"
    return made


def suppressed_while_waiting_too_long(world):
    made = world.schedule()
    suppress(world, made)
    return waited_too_long(world, made)


def held(world, made, at=0.0):
    pauses.held(world, made, at)
    return made


def held_by_a_refused_claim(world, stage):
    made = stage(world, world.schedule())
    pauses.paused(world)
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "paused"


def released(world, *, covered=False):
    by = pauses.held(world, world.schedule())
    if covered:
        pauses.paused(world)
    pauses.resumed(world, by)
    pauses.release(world)


def shadowed(world, stage):
    moded(world, "shadow")
    made = stage(world, world.schedule())
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "shadowed"
    return made


def due_again(world, made):
    world.sql("UPDATE reminders.due SET wake_at = clock_timestamp() WHERE id = %s", str(made.id))
    return made


REMINDER_DRIVERS = {
    (None, "pending"): lambda w: w.schedule(),
    ("pending", "leased"): lambda w: leased(w, w.schedule()),
    ("leased", "leased"): lambda w: leased(w, leased(w, w.schedule()), LEASE + 1),
    ("leased", "published"): lambda w: published(w, w.schedule()),
    ("published", "leased"): lambda w: published(w, published(w, w.schedule()), REDELIVER + 1),
    ("leased", "sending"): lambda w: w.claim(leased(w, w.schedule())),
    ("published", "sending"): lambda w: w.opened(w.schedule()),
    ("sending", "delivered"): lambda w: ended(w, DONE),
    ("sending", "pending"): lambda w: ended(w, AGAIN),
    ("sending", "dead"): lambda w: ended(w, NO),
    ("sending", "cancelled"): lambda w: cancelled_under_a_claim(w, AGAIN),
    ("pending", "expired"): lambda w: given_up(w, w.schedule(expires_at=w.now + timedelta(hours=1))),
    ("leased", "expired"): lambda w: expired(w, leased),
    ("published", "expired"): lambda w: expired(w, published),
    ("pending", "suppressed"): suppressed_while_waiting_too_long,
    ("leased", "suppressed"): lambda w: suppressed(w, w.schedule(), leased),
    ("published", "suppressed"): lambda w: suppressed(w, w.schedule()),
    ("leased", "dead"): lambda w: cancel(w, leased(w, ended(w, LOST), 60)),
    ("published", "dead"): lambda w: refused_claim(w, ended(w, LOST), published, 10 * 86400),
    ("leased", "shadowed"): lambda w: shadowed(w, leased),
    ("published", "shadowed"): lambda w: shadowed(w, published),
    ("pending", "shadowed"): lambda w: moded(w, "shadow") and waited_too_long(w, w.schedule()),
    ("shadowed", "pending"): lambda w: move(w, shadowed(w, published)),
    ("shadowed", "cancelled"): lambda w: cancel(w, shadowed(w, published)),
    ("pending", "delivered"): lambda w: given_up(w, frozen(w, expires_at=w.now + timedelta(hours=1))),
    ("leased", "delivered"): lambda w: refused_claim(w, frozen(w), leased, LATE),
    ("published", "delivered"): lambda w: refused_claim(w, frozen(w), published, LATE),
    ("pending", "cancelled"): lambda w: cancel(w, w.schedule()),
    ("leased", "cancelled"): lambda w: cancel(w, leased(w, w.schedule())),
    ("published", "cancelled"): lambda w: cancel(w, published(w, w.schedule())),
    ("dead", "cancelled"): lambda w: cancel(w, ended(w, NO)),
    ("expired", "cancelled"): lambda w: cancel(w, expired(w, published)),
    ("pending", "dead"): lambda w: cancel(w, ended(w, LOST)),
    ("pending", "pending"): lambda w: move(w, w.schedule()),
    ("leased", "pending"): lambda w: move(w, leased(w, w.schedule())),
    ("published", "pending"): lambda w: move(w, published(w, w.schedule())),
    ("pending", "held"): lambda w: held(w, w.schedule()),
    ("leased", "held"): lambda w: held_by_a_refused_claim(w, leased),
    ("published", "held"): lambda w: held_by_a_refused_claim(w, published),
    ("held", "held"): lambda w: released(w, covered=True),
    ("held", "pending"): released,
    ("held", "cancelled"): lambda w: cancel(w, held(w, w.schedule())),
    ("held", "expired"): lambda w: given_up(w, held(w, w.schedule(expires_at=w.now + timedelta(hours=1)))),
    ("held", "dead"): lambda w: cancel(w, held(w, ended(w, LOST), 60)),
    ("held", "delivered"): lambda w: given_up(w, held(w, frozen(w, expires_at=w.now + timedelta(hours=1)), LATE)),
    ("cancelled", "pending"): lambda w: move(w, cancelled(w, w.schedule())),
    ("suppressed", "pending"): lambda w: move(w, suppressed(w, w.schedule())),
    ("expired", "pending"): lambda w: move(w, expired(w, published)),
    ("dead", "pending"): lambda w: w.redrive(ended(w, NO)),
    ("dead", "delivered"): lambda w: w.redrive(frozen(w, deduplicates=False)),
    ("expired", "delivered"): lambda w: w.redrive(expired_and_then_reported_delivered(w)),
}

DELIVERY_DRIVERS = {
    (None, "sending"): lambda w: w.opened(w.schedule()),
    (None, "retrying"): lambda w: w.schedule() and quarantined(w),
    (None, "unknown"): lambda w: w.schedule(deduplicates=False) and quarantined(w),
    ("retrying", "retrying"): lambda w: due_again(w, ended(w, AGAIN)) and quarantined(w),
    ("dead", "unknown"): lambda w: ended(w, NO) and quarantined(w),
    ("retrying", "sending"): lambda w: w.opened(ended(w, AGAIN), now=w.lapse(60)),
    ("sending", "delivered"): lambda w: ended(w, DONE),
    ("sending", "retrying"): lambda w: ended(w, AGAIN),
    ("sending", "dead"): lambda w: ended(w, NO),
    ("sending", "unknown"): lambda w: ended(w, LOST, deduplicates=False),
    ("sending", "cancelled"): lambda w: cancelled_under_a_claim(w, NO),
    ("retrying", "delivered"): lambda w: refused_claim(w, frozen(w), published, LATE),
    ("retrying", "expired"): expired_while_parked,
    ("retrying", "suppressed"): lambda w: suppressed(w, ended(w, AGAIN), at=60.0),
    ("retrying", "dead"): lambda w: waited_too_long(w, ended(w, AGAIN)),
    ("retrying", "unknown"): lambda w: cancel(w, ended(w, LOST)),
    ("retrying", "cancelled"): lambda w: cancel(w, ended(w, AGAIN)),
    ("retrying", "superseded"): lambda w: move(w, ended(w, AGAIN)),
    ("dead", "cancelled"): lambda w: cancel(w, ended(w, NO)),
    ("dead", "superseded"): lambda w: move(w, ended(w, NO)),
    ("expired", "superseded"): lambda w: move(w, expired_while_parked(w)),
    ("cancelled", "superseded"): lambda w: move(w, cancelled(w, ended(w, AGAIN))),
    ("suppressed", "superseded"): lambda w: move(w, suppressed(w, ended(w, AGAIN), at=60.0)),
    ("dead", "retrying"): lambda w: w.redrive(ended(w, NO)),
    ("unknown", "cancelled"): lambda w: operators.not_sent(w, cancelled_while_unknown(w)),
    ("unknown", "dead"): lambda w: operators.not_sent(w, ended(w, LOST, deduplicates=False)),
    ("unknown", "retrying"): lambda w: w.redrive(ended(w, LOST, deduplicates=False), checked=True),
    ("expired", "retrying"): lambda w: operators.redriven(w, expired_while_parked(w), ignore_expiry=True),
    ("dead", "delivered"): lambda w: w.redrive(convicted_and_then_reported_delivered(w)),
    ("unknown", "delivered"): lambda w: w.redrive(frozen(w, deduplicates=False)),
    ("expired", "delivered"): lambda w: w.redrive(expired_and_then_reported_delivered(w)),
}


def seen(world):
    return world.sql("SELECT transaction, sent_at, place, thing, old, new FROM audit.moves ORDER BY number")


@pytest.mark.parametrize("move", [(each.before, each.after) for each in REMINDER_TRANSITIONS], ids=str)
def test_every_documented_move_of_a_reminder_happens(world, move):
    REMINDER_DRIVERS[move](world)
    assert move in {each for _, each in audit.reminder_moves(seen(world))}


@pytest.mark.parametrize("move", [(each.before, each.after) for each in DELIVERY_TRANSITIONS], ids=str)
def test_every_documented_move_of_a_delivery_happens(world, move):
    DELIVERY_DRIVERS[move](world)
    assert move in {each for _, each in audit.delivery_moves(seen(world))}


@pytest.mark.parametrize("outcome", [DONE, AGAIN, NO, LOST], ids=lambda each: each.name)
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.usefixtures("impatient")
def test_outcomes_recorded_alone_move_only_as_documented(world, outcome, commit):
    recorded_alone(world, outcome, commit=commit)
    assert world.sql("SELECT count(*) FROM reminders.due WHERE status = 'sending'")[0][0] == 0


def test_a_move_that_is_not_documented_would_be_noticed(world):
    made = world.schedule()
    world.sql("DELETE FROM reminders.due")
    world.sql("UPDATE reminders.reminders SET status = 'shadowed', finished_at = now()")
    with pytest.raises(AssertionError, match="is live in reminders and None in due"):
        audit.strays(seen(world))
    world.sql("DELETE FROM audit.moves")
    claimed = world.schedule()
    world.opened(claimed)
    world.sql("UPDATE reminders.notification_deliveries SET status = 'superseded', finished_at = now()")
    assert audit.strays(seen(world)) == [f"delivery {claimed.delivery_key}: ('sending', 'superseded')"]
    world.sql("DELETE FROM audit.moves")
    assert made.id != claimed.id

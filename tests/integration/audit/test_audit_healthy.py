"""A ledger that only the pipeline has written has no violation: at no moment, in no state, whoever holds what."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

import reminders
from integration.audit.aging import AGAIN, DAY, HOUR, LOST, MINUTE, NO
from integration.ledger.world import CLAIM, LEASE, MAX_WAIT, NOW, REDELIVER, ScriptedProvider
from reminders.domain.outcomes import Delivered

DONE = Delivered("r")
EXPIRING = {"expires_at": NOW + timedelta(hours=1)}


def leased(w):
    w.schedule()
    w.broker.accepts = 0
    w.scanning().once()


def cancelled_under_a_claim(w, outcome, **wanted):
    made = w.schedule(**wanted)
    claim = w.opened(made)
    assert w.committed(reminders.cancel, made.id) == "requested"
    w.finish(claim, outcome)


def expired(w, *outcomes):
    made = w.ended(*outcomes, **EXPIRING)
    w.age(2 * HOUR)
    w.run(made)


def given_back(w):
    made = w.schedule()
    assert w.finalizing().give_back(w.opened(made), 1.0) == "given_back"
    return made


def given_back_and_delivered(w):
    made = given_back(w)
    w.age(MINUTE)
    assert w.run(made) == "delivered"


def given_back_cancelled_and_uncertain(w):
    made = w.ended(LOST)
    w.age(10 * MINUTE)
    claim = w.opened(made)
    w.committed(reminders.cancel, made.id)
    w.finalizing().give_back(claim, 1.0)
    assert w.status(made.id) == ("dead", "unknown")


def given_back_alone_cancelled_and_uncertain(w):
    made = w.ended(LOST)
    w.age(10 * MINUTE)
    claim = w.opened(made)
    holder = w.connect()
    reminders.cancel(holder, made.id)
    w.finalizing().give_back(claim, 1.0)
    holder.commit()
    w.age(CLAIM + 1)
    w.repair(0.0)
    assert w.status(made.id) == ("dead", "unknown")


def worker_lost(w, **wanted):
    made = w.schedule(**wanted)
    return made, w.died(made)


def late(w, outcome):
    _, claim = worker_lost(w)
    w.finish(claim, outcome)


def late_with_a_newer_claim_open(w, outcome, newer):
    made, old = worker_lost(w)
    claim = w.opened(made)
    w.finish(old, outcome)
    assert w.violations() == []
    w.finish(claim, newer)


def convicted(w):
    made = w.schedule()
    for _ in range(4):
        w.died(made)
    assert w.letters(made.id) == [("pipeline", "open", "worker_lost")]
    return made


def redriven(w, *outcomes, **wanted):
    made = w.ended(*outcomes, **wanted)
    assert w.redrive(made, checked=True) == [made.id]
    return made


def refused_for_good(w):
    made = redriven(w, NO)
    w.run(made, NO)
    assert [state for _, state, _ in w.letters(made.id)] == ["redriven", "open"]


def expired_and_redriven(w):
    """Nobody can redrive what has expired; what died before and is redriven after its expiry is ended unsent."""
    made = w.ended(NO, **EXPIRING)
    w.age(2 * HOUR)
    w.redrive(made)
    w.run(made)
    assert w.status(made.id) == ("expired", "expired")


def settled(w):
    made, old = worker_lost(w, deduplicates=False)
    w.finish(old, DONE)
    assert w.violations() == []
    assert w.redrive(made) == []
    assert w.status(made.id) == ("delivered", "delivered")


def moved(w, *outcomes):
    made = w.ended(*outcomes)
    w.committed(reminders.reschedule, made.id, due_at=NOW + timedelta(days=1))


def body_failed(w):
    made = w.schedule()
    w.published()
    provider = ScriptedProvider()
    provider.render = lambda _: 1 / 0
    assert w.deliver(provider)(made.id, made.delivery_key) == "dead"


def out_of_the_window(w):
    made = w.ended(LOST)
    w.age(10 * DAY)
    w.run(made)
    assert w.letters(made.id) == [("unknown", "open", "not_repeatable")]


def no_longer_deduplicating(w):
    made = w.ended(LOST)
    w.sql("UPDATE reminders.destinations SET deduplicates = false")
    w.age(10 * MINUTE)
    w.run(made)
    assert w.redrive(made, checked=True) == [made.id]
    assert w.run(made) == "delivered"


STORIES = {
    "pending": lambda w: w.schedule(),
    "months away": lambda w: w.schedule(due_at=NOW + timedelta(days=300)),
    "without a reference": lambda w: w.schedule(reference=None),
    "moved without a reference": lambda w: w.committed(
        reminders.reschedule, w.schedule(reference=None).id, due_at=NOW + timedelta(days=1)
    ),
    "leased": leased,
    "published": lambda w: w.schedule() and w.published(),
    "sending": lambda w: w.opened(w.schedule()),
    "delivered": lambda w: w.ended(DONE),
    "parked": lambda w: w.ended(AGAIN),
    "delivered at the third": lambda w: w.ended(AGAIN, LOST, DONE),
    "refused": lambda w: w.ended(NO),
    "exhausted": lambda w: w.ended(*[AGAIN] * 8),
    "exhausted and uncertain": lambda w: w.ended(LOST, *[AGAIN] * 7),
    "uncertain": lambda w: w.ended(LOST),
    "unknown in review": lambda w: w.ended(LOST, deduplicates=False),
    "redriven": lambda w: redriven(w, NO),
    "redriven and delivered": lambda w: w.run(redriven(w, LOST, deduplicates=False)),
    "redriven and refused": refused_for_good,
    "redriven after expiry": expired_and_redriven,
    "redriven and moved": lambda w: w.committed(reminders.reschedule, redriven(w, NO).id, due_at=NOW + timedelta(days=1)),
    "cancelled": lambda w: w.committed(reminders.cancel, w.schedule().id),
    "cancelled while parked": lambda w: w.committed(reminders.cancel, w.ended(AGAIN).id),
    "cancelled when dead": lambda w: w.committed(reminders.cancel, w.ended(NO).id),
    "cancelled while uncertain": lambda w: w.committed(reminders.cancel, w.ended(LOST).id),
    "cancelled in review": lambda w: w.committed(reminders.cancel, w.ended(LOST, deduplicates=False).id),
    "cancelled in the call, delivered": lambda w: cancelled_under_a_claim(w, DONE),
    "cancelled in the call, retry": lambda w: cancelled_under_a_claim(w, AGAIN),
    "cancelled in the call, unknown": lambda w: cancelled_under_a_claim(w, LOST),
    "moved": lambda w: moved(w),
    "moved while parked": lambda w: moved(w, AGAIN),
    "moved when dead": lambda w: moved(w, NO),
    "expired": expired,
    "expired while parked": lambda w: expired(w, AGAIN),
    "expired while uncertain": lambda w: expired(w, LOST),
    "given back": given_back,
    "given back and delivered": given_back_and_delivered,
    "given back, cancelled, uncertain": given_back_cancelled_and_uncertain,
    "given back alone, cancelled, uncertain": given_back_alone_cancelled_and_uncertain,
    "worker lost": worker_lost,
    "worker lost, for review": lambda w: worker_lost(w, deduplicates=False),
    "worker lost, delivered then": lambda w: w.run(worker_lost(w)[0]),
    "convicted": convicted,
    "convicted and redriven": lambda w: w.redrive(convicted(w), checked=True),
    "late retry": lambda w: late(w, AGAIN),
    "late success": lambda w: late(w, DONE),
    "late success, newer claim lost": lambda w: late_with_a_newer_claim_open(w, DONE, LOST),
    "late success, newer one too": lambda w: late_with_a_newer_claim_open(w, DONE, DONE),
    "late retry, newer claim done": lambda w: late_with_a_newer_claim_open(w, AGAIN, DONE),
    "late success, settled": settled,
    "body failed": body_failed,
    "out of the window": out_of_the_window,
    "no longer deduplicating": no_longer_deduplicating,
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_no_violation(world, story):
    STORIES[story](world)
    assert world.violations() == []
    if not world.sql("SELECT 1 FROM reminders.due"):
        # What has ended stays clean, however old it gets.
        world.age(30 * DAY)
        assert world.violations() == []


@pytest.mark.parametrize("outcome", [DONE, AGAIN, NO, LOST], ids=lambda each: each.name)
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_an_outcome_recorded_alone_is_no_violation_before_or_after_the_claims_end(world, outcome, commits):
    made = world.schedule()
    claim = world.opened(made)
    holder = world.connect()
    assert reminders.cancel(holder, made.id) == "requested"
    world.finish(claim, outcome)
    assert world.status(made.id)[0] == "sending"
    assert world.violations() == []
    holder.commit() if commits else holder.rollback()
    world.age(CLAIM + 4 * MINUTE)
    assert world.violations() == []
    assert world.repair(0.0) == 1
    assert world.violations() == []


@pytest.mark.parametrize(
    ("story", "seconds", "stuck"),
    [
        ("pending", 0, "overdue"),
        ("leased", LEASE, "message_overdue"),
        ("published", REDELIVER, "message_overdue"),
        ("sending", CLAIM, "claim_not_repaired"),
    ],
)
def test_what_is_late_is_stuck_only_after_the_grace(world, story, seconds, stuck):
    STORIES[story](world)
    world.age(seconds + 4 * MINUTE - (MINUTE if story == "pending" else 0))
    assert world.violations() == []
    world.age(2 * MINUTE)
    assert [name for name, _ in world.violations()] == [stuck]


def test_a_backlog_that_is_being_worked_off_is_no_violation(world):
    for _ in range(3):
        world.schedule()
    world.age(HOUR)
    assert [name for name, _ in world.violations()] == ["overdue"] * 3
    world.scanning(in_flight=1).once()
    assert len(world.broker.take()) == 1
    assert world.violations(in_flight=4) == []
    assert [name for name, _ in world.violations(in_flight=5)] == ["overdue"] * 2


def test_a_long_wait_that_the_far_side_may_ask_for_is_within_the_bound(world):
    world.ended(AGAIN)
    world.sql("UPDATE reminders.due SET wake_at = now() + make_interval(secs => %s)", MAX_WAIT - MINUTE)
    assert world.violations() == []


def test_never_a_violation_while_workers_scans_and_callers_are_at_it(world):
    """Real deliveries in eight threads, with retries, unknown outcomes, refusals, cancellations and moves among them."""
    choice = random.Random(7)
    made = [world.schedule(user_id=f"user-{number}") for number in range(120)]
    odd = [each for each in made if choice.random() < 0.3]

    def work():
        provider = ScriptedProvider(*choice.choices([DONE, AGAIN, NO, LOST], weights=(5, 3, 1, 2), k=400))
        for _ in range(12):
            world.scanning().once()
            for message in world.broker.take():
                world.deliver(provider)(message.reminder_id, message.delivery_key)
            world.sql("UPDATE reminders.due SET wake_at = now() WHERE status = 'pending'")

    def meddle():
        for each in odd:
            try:
                if each.id.int % 2:
                    world.committed(reminders.cancel, each.id)
                else:
                    world.committed(reminders.reschedule, each.id, due_at=NOW)
            except reminders.Refused:
                pass

    at_it = [world.start(work) for _ in range(8)] + [world.start(meddle)]
    rounds = 0
    while not all(each.done() for each in at_it) or not rounds:
        assert world.violations() == []
        rounds += 1
    for each in at_it:
        each.result()
    assert rounds > 1
    assert world.violations() == []
    assert world.sql("SELECT count(*) FROM reminders.delivery_attempts")[0][0] > 120

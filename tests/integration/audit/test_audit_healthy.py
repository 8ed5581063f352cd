"""A ledger that only the pipeline has written has no violation: at no moment, in no state, whoever holds what."""

from __future__ import annotations

import random
from datetime import timedelta
from threading import Event

import pytest

import reminders
from integration.audit.aging import AGAIN, DAY, HOUR, LOST, MINUTE, NO
from integration.audit.stories import DONE, STORIES
from integration.ledger.world import CLAIM, LEASE, MAX_WAIT, REDELIVER, AskedProvider, ScriptedProvider
from reminders.domain.look_ups import Found
from reminders.domain.outcomes import Blocked

# Skipping what others hold, since two updates of many rows in different orders may deadlock.
ALL_DUE_AT_ONCE = """UPDATE reminders.due SET wake_at = now() WHERE id IN (
    SELECT id FROM reminders.due WHERE status = 'pending' FOR NO KEY UPDATE SKIP LOCKED)"""


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
    for number in range(3):
        world.schedule(destination=f"place-{number}")
    world.age(HOUR)
    assert [name for name, _ in world.violations()] == ["overdue"] * 3
    world.scanning(in_flight=1).once()
    assert len(world.broker.take()) == 1
    assert world.violations(in_flight=7) == []
    assert [name for name, _ in world.violations(in_flight=8)] == ["overdue"] * 2


def test_what_waits_for_its_destinations_share_is_no_violation(world):
    for _ in range(30):
        world.schedule()
    other = world.schedule(destination="elsewhere")
    world.age(HOUR)
    for _ in range(3):
        world.scanning(in_flight=10).once()
    assert other.id in {message.reminder_id for message in world.broker.take()}
    world.sql("UPDATE reminders.due SET wake_at = now() + interval '1 minute' WHERE status = 'published'")
    its = world.sql("SELECT count(*) FROM reminders.due WHERE status = 'published' AND id <> %s", str(other.id))[0][0]
    assert {name for name, _ in world.violations(in_flight=20 * its + 20)} == {"overdue"}
    assert world.violations(in_flight=20 * its) == []


def test_a_long_wait_that_the_far_side_may_ask_for_is_within_the_bound(world):
    world.ended(AGAIN)
    world.sql("UPDATE reminders.due SET wake_at = now() + make_interval(secs => %s)", MAX_WAIT - MINUTE)
    assert world.violations() == []


def test_never_a_violation_while_workers_scans_and_callers_are_at_it(world):
    """Real deliveries in four threads, with retries, unknown outcomes, refusals, cancellations and moves among them."""
    choice = random.Random(7)
    made = [world.schedule(user_id=f"user-{number}") for number in range(80)]
    odd = [each for each in made if choice.random() < 0.3]
    looked_twice = Event()

    def work():
        provider = ScriptedProvider(*choice.choices([DONE, AGAIN, NO, LOST], weights=(4, 4, 1, 3), k=400))
        number = 0
        while number < 10 or not looked_twice.is_set():
            number += 1
            world.scanning().once()
            for message in world.broker.take():
                world.deliver(provider)(message.reminder_id, message.delivery_key)
            world.sql(ALL_DUE_AT_ONCE)

    def meddle():
        for each in odd:
            try:
                if each.id.int % 2:
                    world.committed(reminders.cancel, each.id)
                else:
                    world.committed(reminders.reschedule, each.id, due_at=world.now)
            except reminders.Refused:
                pass

    at_it = [world.start(work) for _ in range(4)] + [world.start(meddle)]
    rounds = 0
    try:
        while not all(each.done() for each in at_it):
            assert world.violations() == []
            rounds += 1
            if rounds == 2:
                looked_twice.set()
    finally:
        looked_twice.set()
    for each in at_it:
        each.result()
    assert rounds > 1
    assert world.violations() == []
    assert world.sql("SELECT count(*) FROM reminders.delivery_attempts")[0][0] > 80


def test_one_that_died_waiting_for_its_destination_needs_no_delivery(world):
    made = world.schedule()
    world.sql("UPDATE reminders.due SET give_up_at = wake_at")
    world.scanning().once()
    assert world.letters(made.id) == [("destination", "open", "waited_too_long")]
    assert world.violations() == []


def test_a_pause_that_is_reported_late_leaves_its_attempt_counted(world):
    """Its claim was repaired as a lost worker's, which counts, before it said that the far side had asked for a pause."""
    made = world.schedule(deduplicates=False)
    claim = world.opened(made)
    world.repair()
    assert world.finalize(claim, Blocked("destination", timedelta(seconds=30), "http_429", "busy", 429)) == "lapsed"
    assert world.attempts(made.id) == [(1, "blocked", "http_429")]
    assert world.violations() == []


def test_a_look_up_beyond_the_deduplication_window_repeats_nothing(world):
    """It asks whether an earlier attempt took effect, which needs no memory of the key: the model test had it reported."""
    world.look_ups = ("log",)
    made = world.schedule(deduplicates=False)
    provider = AskedProvider(LOST, answers=[Found("theirs")])
    told = []
    for days in (0, 8):
        world.age(days * DAY)
        world.published()
        told.append(world.deliver(provider)(made.id, made.delivery_key))
    assert told == ["parked", "delivered"]
    assert world.violations() == []

"""A worker that was told to stop and ended during a call: its reminder is repeated or reviewed, and nothing is burnt."""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.world import CLAIM, MAX_ATTEMPTS, MAX_WAIT, ScriptedProvider
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.ledger.shutdowns import record_shutdown

SHUT_DOWN = "worker_shut_down"


def stopped(world, made, *, at=0.0, worker="told", ago=0.0):
    """Claimed `at` seconds from now by a worker that is told to stop and then ends; repaired. Returns the claim."""
    claim = world.opened(made, now=world.lapse(at), worker=worker)
    record_shutdown(world.database, worker, ago)
    assert world.repair(at + CLAIM + 1) == 1
    return claim


def due(world, made):
    """Route, attempts counted, deaths counted."""
    return world.sql("SELECT route, attempts, alone_deaths FROM reminders.due WHERE id = %s", str(made.id))[0]


def test_it_is_repeated_on_its_own_queue_and_nothing_is_burnt(world):
    made = world.schedule()
    stopped(world, made)
    assert world.status(made.id) == ("pending", "retrying")
    assert due(world, made) == ("deliver", 0, 0)
    assert world.attempts(made.id) == [(1, "unknown", SHUT_DOWN)]
    assert world.column("notification_deliveries", "uncertain_since", made.id) is not None
    (message,) = world.published(world.lapse(CLAIM + 2))
    assert (message.delivery_key, message.route) == (made.delivery_key, "deliver")
    claim = world.claim(made, now=world.lapse(CLAIM + 3))
    assert (claim.claim_number, claim.attempts, claim.uncertain) == (2, 0, True)


def test_where_nothing_deduplicates_it_goes_to_review_and_can_be_redriven_with_the_others(world):
    made = world.schedule(deduplicates=False)
    stopped(world, made)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", SHUT_DOWN)]
    assert world.column("dead_letters", "attempts", made.id) == 0
    assert world.redrive(made, checked=True) == [made.id]
    assert due(world, made) == ("deliver", 0, 0)


def test_a_requested_cancellation_is_for_review_all_the_same(world):
    made = world.schedule()
    world.opened(made, worker="told")
    assert world.committed(reminders.cancel, made.id) == "requested"
    record_shutdown(world.database, "told", 0.0)
    world.repair()
    assert world.status(made.id) == ("dead", "unknown")


def test_what_is_under_suspicion_stays_alone_and_is_not_convicted_by_a_shutdown(world):
    made = world.schedule()
    for death in range(3):  # one among others, two alone
        world.opened(made, now=world.lapse(100 * death), worker=f"died-{death}")
        world.repair(100 * death + CLAIM + 1)
    assert due(world, made) == ("alone", 3, 2)
    for time in range(3, 6):
        stopped(world, made, at=100 * time, worker=f"told-{time}")
        assert due(world, made) == ("alone", 3, 2)
    world.opened(made, now=world.lapse(700), worker="died-at-last")
    world.repair(700 + CLAIM + 1)
    assert world.letters(made.id) == [("pipeline", "open", "worker_lost")]


def test_shutdowns_alone_end_at_the_bound_on_all_waiting(world):
    made = world.schedule()
    for time in range(MAX_ATTEMPTS + 1):
        stopped(world, made, at=60 * time, worker=f"told-{time}")
    assert due(world, made) == ("deliver", 0, 0)
    stopped(world, made, at=MAX_WAIT + 60, worker="told-at-last")
    assert world.letters(made.id) == [("unknown", "open", SHUT_DOWN)]


def test_a_shutdown_is_of_one_worker_and_of_one_time(world):
    """Neither a neighbour's claim nor that of an earlier death is excused."""
    made, neighbour = world.schedule(), world.schedule()
    world.published()
    world.claim(made, worker="told")
    world.claim(neighbour, worker="another")
    record_shutdown(world.database, "told", 0.0)
    assert world.repair() == 2
    assert due(world, made) == ("deliver", 0, 0)
    assert due(world, neighbour) == ("alone", 1, 0)
    assert world.attempts(neighbour.id) == [(1, "unknown", "worker_lost")]


def test_a_shutdown_after_the_repair_changes_nothing(world):
    made = world.schedule()
    world.opened(made, worker="told")
    world.repair()
    record_shutdown(world.database, "told", 0.0)
    assert due(world, made) == ("alone", 1, 0)


@pytest.mark.parametrize(
    ("outcome", "then"),
    [(Delivered("r"), "delivered"), (Retry("busy", ""), "pending"), (Unknown("reset", ""), "pending")],
    ids=lambda each: getattr(each, "name", each),
)
def test_an_outcome_that_comes_after_the_repair_completes_the_record(world, outcome, then):
    made = world.schedule()
    claim = stopped(world, made)
    assert world.finalize(claim, outcome) == "lapsed"
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    assert world.column("delivery_attempts", "decision", made.id) == "late: the claim had lapsed in a shutdown"
    world.published(world.lapse(60))
    if then == "delivered":
        assert world.deliver(ScriptedProvider(), now=world.lapse(61))(made.id, made.delivery_key) == "delivered"
    assert world.status(made.id)[0] == ("delivered" if then == "delivered" else "published")


def test_the_first_time_counts_and_old_rows_are_cleared_away(world):
    record_shutdown(world.database, "long-gone", 31 * 86400.0)
    record_shutdown(world.database, "of-last-week", 7 * 86400.0)
    record_shutdown(world.database, "told", 60.0)
    record_shutdown(world.database, "told", 0.0)
    rows = world.sql(
        "SELECT worker, extract(epoch FROM clock_timestamp() - asked_at)::integer FROM reminders.shutdowns ORDER BY 2"
    )
    assert [worker for worker, _ in rows] == ["told", "of-last-week"]
    assert 60 <= rows[0][1] < 120


def test_a_mixed_batch_is_judged_row_by_row(world):
    many = [world.schedule(deduplicates=bool(number % 2)) for number in range(8)]
    world.published()
    for number, made in enumerate(many):
        world.claim(made, worker=f"w{number // 4}")
    record_shutdown(world.database, "w0", 0.0)
    assert world.repair() == 8
    assert [world.attempts(made.id)[0][2] for made in many] == [SHUT_DOWN] * 4 + ["worker_lost"] * 4
    assert [due(world, made) for made in many[1::2]] == [("deliver", 0, 0)] * 2 + [("alone", 1, 0)] * 2
    assert [world.column("dead_letters", "attempts", made.id) for made in many[::2]] == [0, 0, 1, 1]

"""What a sweep counts: each attempt once, whoever sweeps and whenever; lateness only where it is ours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta

import pytest

from integration.ledger.pauses import held, release, resumed
from integration.ledger.world import ScriptedProvider, World
from reminders.domain.outcomes import Blocked, Rejected, Retry, Unknown
from reminders.ledger import counting
from reminders.ledger.counting import BOUNDS, IN_TIME, count_attempts
from reminders.ledger.measuring import measure
from reminders.ledger.slo import slo_days

AGAIN = Retry("busy", "try later", status_code=503)
HOUR = 3600.0


def due(world: World, made, seconds_ago: float, *, known_for: float = 86400.0) -> None:
    """Let it be due so long ago, and scheduled a day ago."""
    world.sql(
        "UPDATE reminders.due SET wake_at = now() - make_interval(secs => %s) WHERE id = %s", seconds_ago, str(made.id)
    )
    world.sql(
        "UPDATE reminders.reminders SET due_at = now() - make_interval(secs => %s), created_at = now() - make_interval(secs => %s) WHERE id = %s",
        seconds_ago, known_for, str(made.id),
    )  # fmt: skip


def run(world: World, made, *outcomes) -> str:
    world.published()
    return world.deliver(ScriptedProvider(*outcomes))(made.id, made.delivery_key)


def totals(world: World) -> dict[tuple[str, str, str], float]:
    count_attempts(world.database, lag=0.0)
    return {key: value for key, value in measure(world.database).totals.items() if not key[0].endswith("_seconds")}


def called(world: World) -> dict[str, float]:
    """How many were called for, by the bucket of their lateness."""
    return {label: value for (name, _, label), value in totals(world).items() if name == "called"}


def called_in_time(counts: dict[tuple[str, str, str], float]) -> list[bool]:
    """For each bucket of those called for, whether it is within the objective: what a test itself takes is, on any machine."""
    return [float(label) <= IN_TIME for name, _, label in counts if name == "called"]


def test_attempts_outcomes_retries_and_lateness_are_counted_once(world):
    made = world.schedule()
    due(world, made, 31.0)
    assert run(world, made, AGAIN) == "parked"
    world.sql("UPDATE reminders.due SET wake_at = now()")
    assert run(world, made) == "delivered"
    expected = {
        ("attempts", "log", "retry"): 1, ("attempts", "log", "delivered"): 1, ("retries", "log", ""): 1,
        ("called", "log", "60"): 1, ("delivered", "log", "60"): 1,
    }  # fmt: skip
    assert totals(world) == expected
    assert totals(world) == expected
    seconds = measure(world.database).totals
    assert 31.0 <= seconds["called_seconds", "log", ""] < 60.0
    (day,) = slo_days(world.database, days=2)  # just after midnight it was due yesterday
    due_at = world.column("reminders", "due_at", made.id)
    assert (day.day, day.tenant_id) == (due_at.astimezone(UTC).date(), "tenant-a")
    assert (day.called, day.delivered, day.in_time, day.late) == ({60.0: 1}, {60.0: 1}, 1, 0)


def test_late_is_late_and_beyond_a_day_too(world):
    for seconds in (61.0, 2 * 86400.0):
        made = world.schedule()
        due(world, made, seconds, known_for=3 * 86400.0)
        run(world, made, Rejected("gone", "no"))
    assert called(world) == {"120": 1, "Infinity": 1}
    found = slo_days(world.database, days=5)
    assert [(day.in_time, day.late, sum(day.delivered.values())) for day in found] == [(0, 1, 0), (0, 1, 0)]
    assert slo_days(world.database, days=5, tenant="another") == []


def test_nobody_is_late_before_it_was_scheduled(world):
    made = world.schedule()
    due(world, made, 10 * HOUR, known_for=0.0)
    run(world, made)
    assert called_in_time(totals(world)) == [True]


def test_what_a_pause_has_held_is_late_only_from_when_it_was_let_go(world):
    made = world.schedule()
    due(world, made, HOUR)
    resumed(world, held(world, made))
    release(world)
    world.published()
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"
    counts = totals(world)
    assert called_in_time(counts) == [True]
    assert {label for name, _, label in counts if name == "delivered"} == {"21600"}  # the user did wait


def test_a_lease_that_ended_and_a_claim_that_was_given_back_are_ours(world):
    made = world.schedule()
    due(world, made, 200.0)
    claim = world.opened(made)
    assert world.finalizing().give_back(claim, 0.0) == "given_back"
    run(world, made)
    assert called(world) == {"300": 1}


def test_what_its_destination_had_held_is_late_only_from_the_end_of_that(world):
    first, second = world.schedule(), world.schedule()
    due(world, first, HOUR)
    world.published()
    world.deliver(ScriptedProvider(Blocked("destination", timedelta(minutes=5), "http_429", "slow down")))(
        first.id, first.delivery_key
    )
    due(world, second, HOUR)
    assert world.published() == []  # put off: the destination is held
    world.sql("UPDATE reminders.destinations SET hold_until = now()")
    world.sql("UPDATE reminders.due SET wake_at = now() - interval '31 seconds' WHERE id = %s", str(second.id))
    run(world, second)
    assert called(world) == {"21600": 1, "60": 1}


def test_a_worker_that_died_counts_as_a_call(world):
    made = world.schedule()
    due(world, made, 20.0)
    world.opened(made)
    assert world.repair() == 1
    assert totals(world) == {("attempts", "log", "unknown"): 1, ("called", "log", "30"): 1}


def test_an_outcome_recorded_alone_is_counted_as_late_as_it_was(world, impatient):
    made = world.schedule()
    due(world, made, 20.0)
    claim = world.opened(made)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
        assert world.finalize(claim, Unknown("timeout", "no answer")) == "parked"
    holder.rollback()
    assert called(world) == {"30": 1}


def test_batches_end_where_they_should_and_the_rest_is_the_next_ones(world):
    for _ in range(7):
        run(world, world.schedule())
    assert count_attempts(world.database, lag=0.0, batch=3, seconds=0.0) == counting.Counted(0, complete=False)
    done = count_attempts(world.database, lag=0.0, batch=3)
    assert done == counting.Counted(7, complete=True)
    assert count_attempts(world.database, lag=0.0).attempts == 0


def test_sweeps_at_once_count_nothing_twice(world):
    for _ in range(30):
        run(world, world.schedule())
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: count_attempts(world.database, lag=0.0, batch=2), range(6)))
    assert totals(world)["attempts", "log", "delivered"] == 30
    assert sum(each.attempts for each in done) <= 30


def test_what_is_recorded_and_not_yet_committed_is_counted_later(world):
    made = world.schedule()
    claim = world.opened(made)
    slow = world.connect()
    with slow.cursor() as cursor:
        cursor.execute(
            """INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
               VALUES ('slow', 1, now(), gen_random_uuid(), 'w', 'delivered', '', '', '')"""
        )
    world.finalize(claim, Rejected("gone", "no"))
    assert totals(world) == {}  # it would be passed over for good
    slow.commit()
    counts = totals(world)
    attempts = {key: number for key, number in counts.items() if key[0] == "attempts"}
    assert attempts == {("attempts", "", "delivered"): 1, ("attempts", "log", "rejected"): 1}
    assert called_in_time(counts) == [True]


def test_of_two_sweeps_one_counts(world):
    count_attempts(world.database, lag=0.0)
    run(world, world.schedule())
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.counted_up_to FOR UPDATE")
        assert count_attempts(world.database, lag=0.0) == counting.Counted(0, complete=True)  # somebody else is at it
    holder.rollback()
    assert count_attempts(world.database, lag=0.0).attempts == 1


def test_old_facts_go(world):
    world.sql(
        "INSERT INTO reminders.slo_days SELECT current_date - n, 't', 1, 1, 1 FROM unnest(ARRAY[0, 399, 402, 500]) n"
    )
    count_attempts(world.database)
    assert len(slo_days(world.database, days=1000)) == 2


def test_the_objective_is_a_bound():
    assert IN_TIME in BOUNDS
    assert list(BOUNDS) == sorted(BOUNDS)
    assert BOUNDS[-1] == float("inf")


@pytest.mark.parametrize("bound", BOUNDS[:-1])
def test_each_bucket_reaches_up_to_its_bound(world, bound):
    below, above = counting._bucket(f"{bound - 0.001}"), counting._bucket(f"{bound + 0.001}")
    (row,) = world.sql(f"SELECT {below}, {above}")
    assert row == (bound, BOUNDS[BOUNDS.index(bound) + 1])

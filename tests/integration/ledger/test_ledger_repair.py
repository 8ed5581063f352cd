"""Claims whose worker is gone: repeated where that is safe, shown to a person where it is not (G2, G4, G7)."""

from __future__ import annotations

from datetime import timedelta
from threading import Event

import pytest

import reminders
from integration.ledger.world import CLAIM, LEASE, MAX_ATTEMPTS, MAX_WAIT, ScriptedProvider
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline.repair import RepairPolicy, repair

AGAIN = Retry("busy", "try later")


def die(world, made, *, at: float):
    """A claim at `at` seconds from now whose worker ends without a word, and its repair. Returns the next moment."""
    world.opened(made, now=world.lapse(at), worker=f"worker-at-{at}")
    assert world.repair(at + CLAIM + 1) == 1
    return at + CLAIM + 2


def test_before_its_end_a_claim_is_left_alone(world):
    made = world.schedule()
    end = world.opened(made).claimed_at + timedelta(seconds=CLAIM)
    before = PostgresScan(world.database, end - timedelta(milliseconds=1))
    assert repair(before, RepairPolicy(MAX_ATTEMPTS, MAX_WAIT), 10) == 0
    assert world.status(made.id) == ("sending", "sending")


def test_where_the_destination_deduplicates_the_attempt_is_repeated_alone_under_the_same_key(world):
    made = world.schedule()
    die(world, made, at=0)
    assert world.status(made.id) == ("pending", "retrying")
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost")]
    assert world.column("due", "attempts", made.id) == 1
    assert world.column("notification_deliveries", "uncertain_since", made.id) is not None
    (message,) = world.published(world.lapse(CLAIM + 2))
    assert (message.delivery_key, message.route) == (made.delivery_key, "alone")


def test_where_it_does_not_a_person_decides(world):
    made = world.schedule(deduplicates=False)
    die(world, made, at=0)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost")]
    assert world.letters(made.id) == [("unknown", "open", "worker_lost")]
    assert world.published(world.lapse(10 * 86400)) == []


def test_the_record_of_a_lost_worker_names_it_and_the_claims_own_time(world):
    made = world.schedule()
    claim = world.opened(made, worker="host:1")
    world.repair()
    row = world.sql("SELECT worker, claimed_at, duration_ms, decision FROM reminders.delivery_attempts")[0]
    assert row == ("host:1", claim.claimed_at, None, "repeat under the same key, alone")


def test_the_scan_repairs_before_it_looks_for_work(world):
    made = world.schedule()
    world.opened(made)
    world.scanning(now=world.lapse(CLAIM + 1)).once()
    assert [message.route for message in world.broker.sent] == ["alone"]
    assert world.status(made.id)[0] == "published"


def test_only_the_third_death_alone_convicts(world):
    made = world.schedule()
    at = 0.0
    for _ in range(3):
        at = die(world, made, at=at)
        assert world.status(made.id) == ("pending", "retrying")
    die(world, made, at=at)
    assert world.status(made.id) == ("dead", "dead")
    assert world.letters(made.id) == [("pipeline", "open", "worker_lost")]
    assert [number for number, *_ in world.attempts(made.id)] == [1, 2, 3, 4]


@pytest.mark.parametrize("alone", [False, True], ids=["finalized", "recorded alone"])
@pytest.mark.usefixtures("impatient")
def test_an_attempt_that_ends_well_between_deaths_starts_the_count_again(world, alone):
    made = world.schedule()
    at = 0.0
    for _ in range(3):
        at = die(world, made, at=at)
    claim = world.opened(made, now=world.lapse(at))
    if alone:
        holder = world.connect()
        assert reminders.cancel(holder, made.id) == "requested"
        world.finalize(claim, AGAIN, now=world.lapse(at))
        holder.rollback()
        assert world.repair(at + CLAIM + 1) == 1
    else:
        world.finalize(claim, AGAIN, now=world.lapse(at))
    assert world.column("due", "alone_deaths", made.id) == 0
    at = die(world, made, at=at + 2000)
    assert world.status(made.id) == ("pending", "retrying")


def test_a_claim_given_back_does_not_absolve(world):
    made = world.schedule()
    at = 0.0
    for _ in range(2):
        at = die(world, made, at=at)
    world.finalizing(now=world.lapse(at)).give_back(world.opened(made, now=world.lapse(at)), 1.0)
    (message,) = world.published(world.lapse(at + 2))
    assert message.route == "alone"
    assert world.column("due", "alone_deaths", made.id) == 1


def test_deaths_among_others_end_at_the_attempt_limit(world):
    """Each repeat is counted, so that even without a conviction it is finite."""
    made = world.schedule()
    policy = RepairPolicy(max_attempts=2, max_wait=MAX_WAIT)
    world.opened(made)
    repair(PostgresScan(world.database, world.lapse(31)), policy, 10)
    world.opened(made, now=world.lapse(40))
    repair(PostgresScan(world.database, world.lapse(80)), policy, 10)
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "worker_lost")]


def test_a_claim_that_lapsed_after_all_waiting_is_over_goes_to_review(world):
    made = world.schedule()
    world.opened(made)
    world.repair(MAX_WAIT + 10)
    assert world.status(made.id) == ("dead", "unknown")


def test_a_row_that_a_caller_holds_is_repaired_when_it_is_free(world):
    made, other = world.schedule(), world.schedule()
    world.published()
    assert world.claim(made) is not None
    assert world.claim(other) is not None
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
    assert world.repair() == 1
    assert world.status(other.id)[0] == "pending"
    holder.rollback()
    assert world.repair() == 1
    assert world.status(made.id)[0] == "pending"


def test_two_repairs_at_once_put_a_claim_right_once(world):
    made = world.schedule()
    world.opened(made)
    first = PostgresScan(world.database, world.lapse(CLAIM + 1))
    with first.repair(10) as moves:
        assert [row.reminder_id for row in moves.lapsed] == [made.id]
        assert world.repair() == 0
        moves.repeat(moves.lapsed)
    assert world.repair() == 0
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost")]


def test_a_repair_that_fails_midway_leaves_the_claims_lapsed(world):
    made = world.schedule()
    world.opened(made)
    ledger = PostgresScan(world.database, world.lapse(CLAIM + 1))

    def fail_midway():
        with ledger.repair(10) as moves:
            moves.repeat(moves.lapsed)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert world.status(made.id) == ("sending", "sending")
    assert world.attempts(made.id) == []
    assert world.repair() == 1


@pytest.mark.usefixtures("impatient")
def test_a_mixed_batch_is_sorted_by_what_each_needs(world):
    repeated = world.schedule()
    reviewed = world.schedule(deduplicates=False)
    delivered, dead = world.schedule(), world.schedule()
    world.published()
    claims = {made.id: world.claim(made) for made in (repeated, reviewed, delivered, dead)}
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due FOR NO KEY UPDATE")
    world.finalize(claims[delivered.id], Delivered())
    world.finalize(claims[dead.id], Retry("busy", "", after=timedelta(days=30)))
    holder.rollback()
    assert world.repair() == 4
    assert [world.status(made.id) for made in (repeated, reviewed, delivered, dead)] == [
        ("pending", "retrying"), ("dead", "unknown"), ("delivered", "delivered"), ("dead", "dead"),
    ]  # fmt: skip


class CountedStop(Event):
    """Knows how long a scan has waited in all. What it does besides takes as long as the machine needs."""

    waited = 0.0

    def wait(self, timeout: float) -> bool:
        self.waited += timeout
        return super().wait(timeout)


def test_a_killed_workers_reminder_is_delivered_within_the_claim_and_a_moment(world):
    """The whole path by the real clock, with a short claim."""
    made = world.schedule()
    world.published()
    assert world.claims().claim(made.id, made.delivery_key, made.id, 0.3) is not None
    stop, provider = CountedStop(), ScriptedProvider(lambda: stop.set() or Delivered("second"))

    class Hand:
        """Delivers what is published at once."""

        def publish(self, messages):
            for message in messages:
                world.deliver(provider)(message.reminder_id, message.delivery_key)
            return len(messages)

    scan = world.scanning()
    scan.publisher = Hand()
    scan.hold(LEASE / 2, stop)
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost"), (2, "delivered", "")]
    assert stop.waited < 3.0


def test_many_deaths_of_many_reminders_are_all_put_right(world):
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(120)])
    world.published()
    for made in many:
        assert world.claim(made) is not None
    assert world.repair(limit=50) == 50
    world.scanning(now=world.lapse(CLAIM + 1), batch=50, in_flight=1000).once()
    assert world.repair(limit=50) == 20
    assert len(world.sql("SELECT 1 FROM reminders.delivery_attempts WHERE error_class = 'worker_lost'")) == 120


def test_the_retry_of_an_attempt_that_is_unknown_is_counted_as_one(world):
    made = world.schedule()
    world.finalize(world.opened(made), Unknown("reset", ""))
    assert world.column("due", "attempts", made.id) == 1
    at = die(world, made, at=60)
    assert world.column("due", "attempts", made.id) == 2
    assert world.opened(made, now=world.lapse(at)).attempts == 2


@pytest.mark.parametrize("table", ["reminders", "due"])
def test_one_row_that_an_application_holds_does_not_stop_the_repair_of_others(world, table):
    held, other = world.schedule(), world.schedule()
    for made in (held, other):
        world.opened(made)
    with world.connect() as caller, caller.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM reminders.{table} WHERE id = %s FOR UPDATE", (str(held.id),))
        assert world.start(world.repair).result(timeout=20) == 1
        assert world.status(held.id) == ("sending", "sending")
        assert world.status(other.id) == ("pending", "retrying")
    assert world.repair() == 1
    assert world.status(held.id) == ("pending", "retrying")


def test_after_an_outage_workers_that_hold_outcomes_come_before_the_repair(world):
    made = world.schedule()
    world.opened(made)
    scan = world.scanning(now=world.lapse(CLAIM + 1))
    scan.faults = (ConnectionError,)
    looks = scan.ledger.look

    def away_once(limit):
        scan.ledger.look = looks
        raise ConnectionError

    scan.ledger.look = away_once
    scan.hold(1.5, Event())
    assert world.status(made.id) == ("sending", "sending")
    scan._repair_from = 0.0
    scan.once()
    assert world.status(made.id)[1] == "retrying"


def test_alone_destinations_take_turns(world):
    """One place serves those that go alone: behind a destination that hangs nobody waits for more than its first call."""
    hanging = [world.schedule() for _ in range(5)]
    innocent = [world.schedule(destination=f"place-{number}") for number in range(3)]
    world.published()
    for made in [*hanging, *innocent]:
        assert world.claim(made) is not None
    world.repair()
    at = world.lapse(CLAIM + 20)
    world.scanning(now=at).once()
    order = [message.reminder_id for message in world.broker.take()]
    assert len(order) == 8
    assert {each.id for each in innocent} < set(order[:4])
    assert world.sql("SELECT DISTINCT route FROM reminders.due") == [("alone",)]

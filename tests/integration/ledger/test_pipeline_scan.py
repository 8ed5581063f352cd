"""The scan: what is due is leased once, published into real room, and brought back whatever gets lost (G2, G8, G10)."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier

import pytest

import reminders
from integration.ledger.world import LEASE, REDELIVER, Broker, ScriptedProvider
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Retry
from reminders.ledger.database import Database
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline import scan as stage
from reminders.pipeline.publish import publish


def schedule(world, count, **changed):
    return world.committed(reminders.schedule_many, [world.wanted(**changed) for _ in range(count)])


def ids(messages):
    return [message.reminder_id for message in messages]


def test_only_what_is_due_goes_out_and_it_is_marked(world):
    due, later = world.schedule(), world.schedule(due_at=world.now + timedelta(hours=1))
    now = world.lapse(0)
    assert ids(world.published(now)) == [due.id]
    assert (world.status(due.id)[0], world.status(later.id)[0]) == ("published", "pending")
    assert world.column("due", "wake_at", due.id) == now + timedelta(seconds=REDELIVER)
    assert world.column("due", "published_at", due.id) == now
    assert world.published() == []


def test_two_scans_at_once_lease_disjoint_rows(world):
    made = schedule(world, 200)
    barrier = Barrier(2)

    def lease():
        barrier.wait()
        return PostgresScan(world.database).lease(120, LEASE, uuid7()).messages

    first, second = (set(ids(each.result(timeout=20))) for each in (world.start(lease), world.start(lease)))
    assert first.isdisjoint(second)
    assert max(len(first), len(second)) <= 120
    rest = set(ids(PostgresScan(world.database).lease(500, LEASE, uuid7()).messages))
    assert first | second | rest == {each.id for each in made}
    assert rest.isdisjoint(first | second)


def test_rows_another_scan_has_locked_are_passed_over_not_waited_for(world):
    made = schedule(world, 10)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT id FROM reminders.due ORDER BY wake_at LIMIT 4 FOR NO KEY UPDATE")
        held = {row[0] for row in cursor.fetchall()}
    leased = {str(each) for each in ids(PostgresScan(world.database).lease(100, LEASE, uuid7()).messages)}
    assert leased == {str(each.id) for each in made} - held


PLANS = {
    "nested loop": "-c enable_hashjoin=off -c enable_mergejoin=off",
    "nested loop that asks again for each row": "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off"
    " -c enable_hashagg=off -c enable_sort=off -c enable_memoize=off",
    "hash join": "-c enable_nestloop=off -c enable_mergejoin=off",
    "merge join": "-c enable_nestloop=off -c enable_hashjoin=off",
    "sequential": "-c enable_indexscan=off -c enable_indexonlyscan=off",
}


@pytest.mark.parametrize("plan", PLANS)
def test_no_plan_leases_more_than_the_batch(world, plan):
    made = schedule(world, 60)
    url = world.database.url.update_query_dict({"options": PLANS[plan]})
    own = Database(url.render_as_string(hide_password=False), schema="reminders", pool_size=2)
    ledger = PostgresScan(own)
    assert len(ledger.lease(7, LEASE, uuid7()).messages) == 7
    assert len(ledger.lease_from_lanes([("tenant-a", 50)], 9, LEASE, uuid7()).messages) == 9
    assert len(ledger.lease_from_lanes([("tenant-a", 5)], 9, LEASE, uuid7()).messages) == 5
    assert world.sql("SELECT count(*) FROM reminders.due WHERE status = 'leased'")[0][0] == 21
    assert len(ledger.lease(500, LEASE, uuid7()).messages) == len(made) - 21
    own.close()


def test_a_missed_hour_of_ticks_is_caught_up_by_the_next_look(world):
    due = [world.schedule(due_at=world.now + timedelta(minutes=minute)) for minute in range(1, 61)]
    assert set(ids(world.published(world.now + timedelta(hours=1)))) == {each.id for each in due}


def test_a_time_months_away_is_reached(world):
    far = world.schedule(due_at=world.now + timedelta(days=200))
    assert world.published(world.now + timedelta(days=200) - timedelta(seconds=1)) == []
    look = PostgresScan(world.database, world.now + timedelta(days=200) - timedelta(seconds=1)).look(10)
    assert look.seconds_to_next == pytest.approx(1.0)
    assert ids(world.published(world.now + timedelta(days=200))) == [far.id]


def test_a_lease_that_ended_is_leased_again(world):
    """Killed after the lease was committed, before publishing."""
    made = world.schedule()
    leased_at = world.lapse(0)
    assert len(PostgresScan(world.database, leased_at).lease(10, LEASE, uuid7()).messages) == 1
    assert world.published(leased_at + timedelta(seconds=LEASE - 1)) == []
    assert ids(world.published(leased_at + timedelta(seconds=LEASE))) == [made.id]


def test_the_mark_of_a_lease_that_was_lost_marks_nothing(world):
    """A scan that was frozen between lease and publish, while another took its rows over."""
    made = world.schedule()
    slow, fast = uuid7(), uuid7()
    PostgresScan(world.database).lease(10, LEASE, slow)
    late = PostgresScan(world.database, world.lapse(LEASE + 1))
    assert len(late.lease(10, LEASE, fast).messages) == 1
    assert late.mark_published_if_leased([made.id], slow, REDELIVER) == []
    assert late.mark_published_if_leased([made.id], fast, REDELIVER) == [made.id]
    late.take_back_if_published([made.id], slow, LEASE)
    assert world.status(made.id)[0] == "published"


def test_a_row_that_another_scan_locked_for_an_instant_does_not_wait_for_its_leases_end(world):
    """A scan that looked at the same moment locks rows that it then does not get; the mark must not pass them over."""
    made = schedule(world, 3)
    ledger, token = PostgresScan(world.database), uuid7()
    messages = ledger.lease(10, LEASE, token).messages
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR NO KEY UPDATE", (str(made[1].id),))
    sent = publish(
        ledger, world.broker, messages, token, redeliver=REDELIVER, lease=LEASE, pause=lambda _: holder.rollback()
    )
    assert sent == 3
    assert {world.status(each.id)[0] for each in made} == {"published"}


def test_what_was_cancelled_between_lease_and_mark_is_not_sent(world):
    made = schedule(world, 3)
    ledger, token = PostgresScan(world.database), uuid7()
    messages = ledger.lease(10, LEASE, token).messages
    assert world.committed(reminders.cancel, made[1].id) == "cancelled"
    paused = []
    assert publish(ledger, world.broker, messages, token, redeliver=REDELIVER, lease=LEASE, pause=paused.append) == 2
    assert sorted(ids(world.broker.sent)) == sorted([made[0].id, made[2].id])
    assert sum(paused) < 0.1


def test_a_message_that_never_comes_back_is_sent_again_after_its_deadline(world):
    made = world.schedule()
    sent_at = world.lapse(0)
    world.published(sent_at)
    assert world.published(sent_at + timedelta(seconds=REDELIVER - 1)) == []
    assert ids(world.published(sent_at + timedelta(seconds=REDELIVER))) == [made.id]


@pytest.mark.parametrize("accepted", [0, 3])
def test_what_the_broker_refuses_is_taken_back_and_goes_out_when_its_lease_ends(world, accepted, caplog):
    made = schedule(world, 8)
    world.broker.accepts = accepted
    now = world.lapse(0)
    done = world.scanning(now=now).once()
    assert (done.leased, done.published, done.full) == (8, accepted, False)
    taken = set(ids(world.broker.take()))
    assert len(taken) == accepted
    refused = {each.id for each in made} - taken
    assert {world.status(each)[0] for each in refused} == {"leased"}
    assert f"count={8 - accepted}" in caplog.text
    world.broker.accepts = None
    assert set(ids(world.published(now + timedelta(seconds=LEASE)))) == refused


def test_what_was_refused_but_arrived_all_the_same_is_delivered_once(world):
    made = world.schedule()
    world.broker.accepts = 0
    world.scanning().once()
    provider = ScriptedProvider()
    deliver = world.deliver(provider)
    assert deliver(made.id, made.delivery_key) == "delivered"
    world.broker.accepts = None
    assert world.published(world.lapse(LEASE + 1)) == []
    assert len(provider.calls) == 1


def test_a_message_claimed_while_it_is_taken_back_is_left_to_its_worker(world):
    made = world.schedule()
    claimed = []

    class Uncertain(Broker):
        def publish(self, messages):
            claimed.append(world.claim(made))
            return 0

    scan = world.scanning()
    scan.publisher = Uncertain()
    scan.once()
    assert claimed[0] is not None
    assert world.status(made.id) == ("sending", "sending")


def test_nothing_is_leased_while_the_broker_cannot_be_asked(world):
    made = world.schedule()
    world.broker.away = True
    done = world.scanning().once()
    assert (done.leased, done.full) == (0, False)
    assert world.status(made.id)[0] == "pending"


@pytest.mark.parametrize("shown", ["ledger", "broker"])
def test_no_more_is_in_flight_than_the_limit_by_either_count(world, shown):
    schedule(world, 30)
    scan = world.scanning(in_flight=10)
    while scan.once().published:
        pass
    assert len(world.broker.sent) == 10
    if shown == "broker":
        world.sql("UPDATE reminders.due SET status = 'pending', wake_at = now() WHERE status = 'published'")
    else:
        world.broker.take()
    done = world.scanning(in_flight=10).once()
    assert (done.leased, done.full) == (0, True)


def test_room_comes_back_with_each_delivery(world):
    schedule(world, 6)
    scan = world.scanning(in_flight=2)
    deliver = world.deliver(ScriptedProvider())
    rounds = 0
    while scan.once().published:
        for message in world.broker.take():
            deliver(message.reminder_id, message.delivery_key)
        rounds += 1
    assert rounds == 3
    assert world.sql("SELECT count(*) FROM reminders.due")[0][0] == 0


def test_workers_that_are_away_for_ten_deadlines_do_not_find_ten_copies(world):
    """Overdue rows are published again only into real room: what is still queued leaves none."""
    schedule(world, 20)
    for round_number in range(12):
        scan = world.scanning(now=world.lapse(round_number * (REDELIVER + 1)), in_flight=10)
        scan.once()
        scan.once()
    assert len(world.broker.sent) <= 12


def test_a_flushed_broker_is_noticed_and_everything_is_sent_again(world, monkeypatch):
    monkeypatch.setattr(stage, "LOST_AFTER", 0.0)
    made = schedule(world, 5)
    scan = world.scanning()
    scan.once()
    assert set(ids(world.broker.take())) == {each.id for each in made}
    for _ in range(3):
        scan.once()
    assert set(ids(world.broker.take())) == {each.id for each in made}


def test_one_comparison_alone_proves_no_loss(world, monkeypatch):
    monkeypatch.setattr(stage, "LOST_AFTER", 0.0)
    schedule(world, 5)
    scan = world.scanning()
    scan.once()
    held = world.broker.take()
    scan.once()
    world.broker.sent = held
    for _ in range(3):
        scan.once()
    assert len(world.broker.sent) == 5


def test_messages_out_for_a_moment_only_are_not_taken_for_lost(world):
    """Younger than two seconds: the broker's figure may simply be older than the ledger's."""
    schedule(world, 5)
    scan = world.scanning(now=world.lapse(0))
    scan.once()
    world.broker.take()
    for _ in range(3):
        scan._excess_checked_at = float("-inf")
        scan.once()
    assert world.broker.sent == []


def test_only_as_many_as_are_missing_are_sent_again(world, monkeypatch):
    monkeypatch.setattr(stage, "LOST_AFTER", 0.0)
    schedule(world, 6)
    scan = world.scanning()
    scan.once()
    world.broker.sent = world.broker.sent[2:]
    for _ in range(4):
        scan.once()
    assert len(world.broker.batches[-1]) == 2


def test_a_parked_retry_goes_out_when_its_time_comes(world):
    made = world.schedule()
    claim, now = world.opened(made), world.lapse(0)
    world.finalize(claim, Retry("busy", ""), now=now)
    assert world.published(now + timedelta(seconds=4.9)) == []
    (message,) = world.published(now + timedelta(seconds=5.1))
    assert message.delivery_key == made.delivery_key


def test_rows_a_caller_is_changing_are_left_out_and_come_back(world):
    made = world.schedule()
    holder = world.connect()
    reminders.cancel(holder, made.id)
    assert world.published() == []
    holder.rollback()
    assert ids(world.published()) == [made.id]


def test_a_tick_is_counted(world):
    ledger = PostgresScan(world.database)
    ledger.record_tick(taken=1)
    ledger.record_tick(dropped=1)
    assert world.sql("SELECT taken, dropped FROM reminders.ticks WHERE name = 'scan_due'") == [(1, 1)]

"""Moving a reminder: the old key is superseded, and nothing is moved under an open claim or an unknown attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.ledger.world import NOW, ScriptedProvider
from reminders import NotFound, Refused
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)
TOMORROW = NOW + timedelta(days=1)


def move(world, made, due_at=TOMORROW, **more):
    return world.committed(reminders.reschedule, made.id, due_at=due_at, **more)


@pytest.mark.parametrize("stage", ["pending", "leased", "published", "parked", "dead", "cancelled", "expired"])
def test_from_every_state_without_a_claim_it_goes_out_once_at_the_new_time(world, stage):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    provider = ScriptedProvider()
    if stage in {"leased", "published"}:
        world.broker.accepts = 0 if stage == "leased" else None
        world.scanning().once()
        world.broker.accepts = None
        world.broker.take()
    elif stage == "parked":
        world.finalize(world.opened(made), AGAIN)
    elif stage == "dead":
        world.finalize(world.opened(made), Rejected("gone", ""))
    elif stage == "cancelled":
        world.committed(reminders.cancel, made.id)
    elif stage == "expired":
        late = world.now + timedelta(hours=2)
        world.published(late)
        world.deliver(provider, now=late)(made.id, made.delivery_key)
    moved = move(world, made)
    assert (moved.version, moved.due_at, moved.status) == (2, TOMORROW, "pending")
    assert moved.delivery_key != made.delivery_key
    assert world.status(made.id)[0] == "pending"
    assert world.published(TOMORROW - timedelta(seconds=1)) == []
    (message,) = world.published(TOMORROW)
    deliver = world.deliver(provider, now=TOMORROW)
    assert deliver(made.id, made.delivery_key) == "superseded"
    assert deliver(made.id, message.delivery_key) == "delivered"
    assert [key for key, *_ in provider.calls] == [moved.delivery_key]


def test_a_moved_reminder_starts_with_a_fresh_budget(world):
    made = world.schedule()
    world.finalize(world.opened(made), AGAIN)
    moved = move(world, made)
    claim = world.opened(moved, now=TOMORROW)
    assert (claim.claim_number, claim.attempts, claim.uncertain) == (1, 0, False)


def test_under_an_open_claim_it_is_refused(world):
    made = world.schedule()
    claim = world.opened(made)
    with pytest.raises(Refused, match="being sent"):
        move(world, made)
    assert world.finalize(claim, Delivered()) == "delivered"
    with pytest.raises(Refused, match="already delivered"):
        move(world, made)


@pytest.mark.parametrize("deduplicates", [True, False], ids=["parked", "in review"])
def test_after_an_unknown_attempt_it_is_refused(world, deduplicates):
    made = world.schedule(deduplicates=deduplicates)
    world.finalize(world.opened(made), LOST)
    with pytest.raises(Refused, match="may already have been sent"):
        move(world, made)
    assert world.committed(reminders.get, made.id).version == 1


def test_after_a_late_success_it_is_refused(world):
    made = world.schedule()
    claim = world.opened(made)
    world.repair()
    world.finalize(claim, Delivered())
    with pytest.raises(Refused, match="already delivered"):
        move(world, made)


def test_there_is_nothing_to_move_that_never_was(world):
    with pytest.raises(NotFound):
        world.committed(reminders.reschedule, uuid7(), due_at=TOMORROW)


def test_to_where_it_is_already_changes_nothing(world):
    made = world.schedule(due_at=TOMORROW, zone="Europe/Berlin")
    again = move(world, made)
    assert (again.version, again.delivery_key) == (1, made.delivery_key)
    assert move(world, made, zone="Europe/Berlin").version == 1


def test_another_zone_is_another_content_even_at_the_same_instant(world):
    made = world.schedule(due_at=TOMORROW, zone="Europe/Berlin")
    moved = move(world, made, zone="Asia/Tokyo")
    assert moved.version == 2
    assert world.committed(reminders.get, made.id).zone == "Asia/Tokyo"


def test_a_wall_time_is_read_in_its_zone(world):
    made = world.schedule()
    moved = move(world, made, due_at=datetime(2030, 7, 1, 9, 30), zone="Europe/Berlin")
    assert moved.due_at == datetime(2030, 7, 1, 7, 30, tzinfo=UTC)


def test_the_expiry_keeps_its_distance_unless_it_is_given(world):
    made = world.schedule(due_at=world.now, expires_at=world.now + timedelta(hours=2))
    move(world, made)
    assert world.committed(reminders.get, made.id).expires_at == TOMORROW + timedelta(hours=2)
    move(world, made, due_at=TOMORROW + timedelta(days=1), expires_at=TOMORROW + timedelta(days=9))
    assert world.committed(reminders.get, made.id).expires_at == TOMORROW + timedelta(days=9)


def test_only_a_new_expiry_is_a_move_too(world):
    made = world.schedule(due_at=TOMORROW, expires_at=TOMORROW + timedelta(hours=2))
    assert move(world, made, expires_at=TOMORROW + timedelta(hours=3)).version == 2


def test_a_move_that_is_rolled_back_moved_nothing(world):
    made = world.schedule()
    connection = world.connect()
    reminders.reschedule(connection, made.id, due_at=TOMORROW)
    connection.rollback()
    assert [message.delivery_key for message in world.published()] == [made.delivery_key]


def test_two_moves_at_once_end_at_the_later_commit(world):
    made = world.schedule()
    first = world.connect()
    reminders.reschedule(first, made.id, due_at=TOMORROW)
    answer = world.start(move, world, made, TOMORROW + timedelta(days=1))
    world.waiting_for_a_lock()
    first.commit()
    moved = answer.result(timeout=10)
    assert (moved.version, moved.due_at) == (3, TOMORROW + timedelta(days=1))
    assert world.sql("SELECT delivery_key, wake_at FROM reminders.due") == [(moved.delivery_key, moved.due_at)]


def test_a_move_and_a_cancel_at_once_both_happen_in_turn(world):
    made = world.schedule()
    first = world.connect()
    assert reminders.cancel(first, made.id) == "cancelled"
    answer = world.start(move, world, made)
    world.waiting_for_a_lock()
    first.commit()
    assert answer.result(timeout=10).version == 2
    assert world.status(made.id)[0] == "pending"

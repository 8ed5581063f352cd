"""The scan puts off what goes to a destination that is held: no message, no claim, and nobody behind it waits for long."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import MAX_WAIT, ScriptedProvider, World
from reminders.domain.outcomes import Blocked, Retry
from reminders.ledger.holding import HOLD_SPREAD

PAUSE = Blocked("destination", timedelta(hours=1), "http_429", "busy")


def schedule(world: World, count: int, **changed) -> list:
    wanted = [world.wanted(due_at=world.now - timedelta(hours=2), **changed) for _ in range(count)]
    return world.committed(reminders.schedule_many, wanted)


def hold(world: World) -> None:
    """Have the common destination ask for an hour's pause."""
    made = world.schedule()
    world.finalize(world.opened(made), PAUSE)


def test_what_waits_for_a_held_destination_is_put_off_without_a_message(world):
    hold(world)
    waiting = schedule(world, 30)
    other = world.schedule(destination="elsewhere")
    world.scanning().once()
    assert [message.reminder_id for message in world.broker.take()] == [other.id]
    ends = world.sql("SELECT hold_until FROM reminders.destinations")[0][0]
    rows = world.sql(
        "SELECT status, wake_at FROM reminders.due WHERE id = ANY(%s::uuid[])", [str(m.id) for m in waiting]
    )
    assert {status for status, _ in rows} == {"pending"}
    assert all(ends <= wake_at <= ends + timedelta(seconds=HOLD_SPREAD) for _, wake_at in rows)
    assert len({wake_at for _, wake_at in rows}) > 20, "they do not wake all at once"
    world.scanning().once()
    assert world.broker.take() == []


@pytest.mark.parametrize("tenants", [["tenant-a"], ["tenant-a", "tenant-b"]])
def test_a_long_queue_for_a_held_destination_hides_nobody(world, tenants):
    hold(world)
    schedule(world, 400)
    behind = [world.schedule(tenant_id=tenant, destination="elsewhere").id for tenant in tenants]
    scan = world.scanning(batch=100, in_flight=100)
    passes = [scan.once() for _ in range(6)]
    assert sorted(message.reminder_id for message in world.broker.sent) == sorted(behind)
    assert all(done.full for done in passes[:3]), "the scan goes on at once while it puts off"


def test_it_goes_out_when_the_hold_has_ended(world):
    hold(world)
    (made,) = schedule(world, 1)
    world.scanning().once()
    assert world.broker.take() == []
    later = world.lapse(3600 + HOLD_SPREAD + 1)
    world.published(later)
    assert world.deliver(ScriptedProvider(), now=later)(made.id, made.delivery_key) == "delivered"


def test_waiting_without_an_attempt_is_bounded(world):
    hold(world)
    (made,) = schedule(world, 1)
    world.scanning().once()
    bound = world.column("due", "give_up_at", made.id)
    assert abs((bound - world.lapse(0)).total_seconds() - MAX_WAIT) < 300
    world.sql("UPDATE reminders.destinations SET hold_until = now() + interval '1 year'")
    world.sql("UPDATE reminders.due SET wake_at = now() - interval '1 second'")
    world.scanning().once()
    assert world.column("due", "give_up_at", made.id) == bound, "putting off again does not begin anew"
    world.scanning(now=bound + timedelta(seconds=1)).once()
    assert world.letters(made.id) == [("destination", "open", "waited_too_long")]


def test_no_hold_outlasts_the_expiry(world):
    hold(world)
    expiry = world.lapse(600)
    (made,) = schedule(world, 1, expires_at=expiry)
    world.scanning().once()
    assert world.column("due", "wake_at", made.id) == expiry


def test_a_message_that_is_still_about_finds_it_put_off(world):
    """Published before the hold, its deadline passes during it: the late message gets no claim."""
    (made,) = schedule(world, 1)
    world.published()
    hold(world)
    world.published(world.lapse(200))
    assert world.status(made.id)[0] == "pending"
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "parked"


def test_a_hold_that_has_ended_and_one_of_another_destination_put_nothing_off(world):
    hold(world)
    world.sql("UPDATE reminders.destinations SET hold_until = now() - interval '1 second'")
    (made,) = schedule(world, 1)
    assert [message.reminder_id for message in world.published()] == [made.id]
    assert world.deliver(ScriptedProvider(Retry("busy", "")))(made.id, made.delivery_key) == "parked"

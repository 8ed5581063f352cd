"""Slow calls do not take the room of others' fresh reminders, and nothing is burnt where they keep somebody waiting (G9)."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from integration.ledger.world import CLAIM, ScriptedProvider, World
from reminders.domain.slow_calls import SLOW_AFTER
from reminders.ledger.limiting import SLOW_AGAIN
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline.deliver import CROWDED_AGAIN_AFTER
from reminders.pipeline.open_calls import OpenCalls


def open_calls_to(world: World, count: int) -> datetime:
    """Claims of so many reminders, each to a destination of its own; when all of them were taken, however long that took."""
    made = [world.schedule(destination=f"hangs-{n}") for n in range(count)]
    now = world.lapse(0)
    world.published(now)
    for each in made:
        assert world.claim(each, now=now) is not None
    return now


def test_a_claim_is_slow_by_its_age_and_no_longer_once_it_has_lapsed(world: World) -> None:
    claimed_at = open_calls_to(world, 3)
    for seconds, slow in ((SLOW_AFTER - 0.9, 0), (SLOW_AFTER + 1, 3), (CLAIM - 1, 3), (CLAIM + 1, 0)):
        look = PostgresScan(world.database, claimed_at + timedelta(seconds=seconds)).look(10)
        assert (look.slow, look.lapsed) == (slow, 0 if seconds < CLAIM else 3), seconds


@pytest.mark.parametrize(("seconds", "goes_out"), [(0.0, 1), (SLOW_AFTER + 1, 4)])
def test_slow_calls_leave_the_room_of_the_scan_up_to_their_limit(world: World, seconds: float, goes_out: int) -> None:
    """Six calls are open; of eight in flight two are free, or six with four calls more in all."""
    claimed_at = open_calls_to(world, 6)
    for n in range(20):
        world.schedule(tenant_id=f"other-{n}", destination=f"good-{n}")
    now = claimed_at + timedelta(seconds=seconds)
    assert world.scanning(now=now, in_flight=7, slow=3).once().published == goes_out


def test_while_many_calls_are_slow_nothing_more_goes_to_who_has_one_open(world: World) -> None:
    claimed_at = open_calls_to(world, 4)
    more = world.schedule(destination="hangs-1", reference="more")
    fresh = world.schedule(tenant_id="other", destination="good")
    now = claimed_at + timedelta(seconds=SLOW_AFTER + 1)
    world.scanning(now=now, slow=8).once()
    assert [message.reminder_id for message in world.broker.take()] == [fresh.id]
    assert world.status(more.id) == ("pending", None)
    waits = (world.column("due", "wake_at", more.id) - now).total_seconds()
    assert SLOW_AGAIN[0] <= waits <= sum(SLOW_AGAIN)
    assert world.column("due", "give_up_at", more.id) is not None, "its waiting is bounded"
    ended = now + timedelta(seconds=CLAIM)
    world.repair(CLAIM + 1)
    assert more.id in [message.reminder_id for message in world.published(ended)]


def test_while_few_calls_are_slow_their_destinations_get_as_much_as_ever(world: World) -> None:
    claimed_at = open_calls_to(world, 3)
    more = world.schedule(destination="hangs-1", reference="more")
    world.scanning(now=claimed_at + timedelta(seconds=SLOW_AFTER + 1), slow=8).once()
    assert [message.reminder_id for message in world.broker.take()] == [more.id]


def test_a_claim_that_finds_no_room_is_given_back_and_burns_nothing(world: World) -> None:
    calls = OpenCalls()
    calls.limit(slots=4, slow=1)
    provider = ScriptedProvider()
    deliver = world.deliver(provider, calls=calls)
    known, unknown = world.schedule(destination="good"), world.schedule(destination="new")
    world.published()
    assert deliver(known.id, known.delivery_key) == "delivered"
    again = world.schedule(destination="good", reference="again")
    world.published()
    with ExitStack() as hanging:
        for _ in range(4):
            hanging.enter_context(calls.place(uuid4()))
        before = world.lapse(CROWDED_AGAIN_AFTER)
        assert deliver(unknown.id, unknown.delivery_key) == "given_back"
        after = world.lapse(CROWDED_AGAIN_AFTER)
        assert deliver(again.id, again.delivery_key) == "delivered"
    assert world.attempts(unknown.id) == []
    assert world.column("due", "attempts", unknown.id) == 0
    assert before <= world.column("due", "wake_at", unknown.id) <= after
    world.published(world.lapse(CROWDED_AGAIN_AFTER + 0.1))
    assert deliver(unknown.id, unknown.delivery_key) == "delivered"
    assert len(provider.calls) == 3

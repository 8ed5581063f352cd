"""A step of the purge never holds its rows for long: what takes too long is undone, and tried again with less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.ledger.world import ScriptedProvider
from reminders.ledger import purging
from reminders.operate import retention


def delivered(world):
    made = world.schedule()
    world.published()
    world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    return made


def test_a_step_that_takes_too_long_is_broken_off_and_tried_again_with_less(world, monkeypatch):
    """Its locks are let go in time, and nothing of it is done."""
    for _ in range(3):
        delivered(world)
    sizes_tried = []

    def slow(database, current, size, room, longest):
        sizes_tried.append((size, longest))
        if len(sizes_tried) <= retention.MOST_BROKEN_OFF:
            raise retention.StepTooSlow
        return original(database, current, size, room, longest)

    original = retention.step
    monkeypatch.setattr(retention, "step", slow)
    monkeypatch.setattr(retention, "FIRST_SIZE", 20)
    monkeypatch.setattr(retention, "SMALLEST_SIZE", 2)
    assert retention.purge(world.database, 86400.0, now=datetime.now(UTC) + timedelta(days=2), patience=0.0).marked == 3
    broken_off = [(size, retention.LONGEST_MS) for size in (20, 5, 2, 2, 2, 2)]
    # One that is never done in time is carried out at last, or the purge would not come to its end.
    assert sizes_tried[:7] == [*broken_off, (2, None)]
    assert {longest for _, longest in sizes_tried[7:]} == {retention.LONGEST_MS}


def test_what_is_broken_off_by_the_server_has_done_nothing(world):
    made = delivered(world)
    current = purging.join_pass(world.database, 86400.0, datetime.now(UTC) + timedelta(days=2))
    world.sql(
        "CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$"
    )
    world.sql(
        "CREATE TRIGGER dawdle BEFORE INSERT ON reminders.keys_seen FOR EACH ROW EXECUTE FUNCTION public.dawdle()"
    )
    try:
        with pytest.raises(purging.StepTooSlow):
            purging.step(world.database, current, 100, 100, 50)
    finally:
        world.sql("DROP FUNCTION public.dawdle() CASCADE")
    assert world.status(made.id)[0] == "delivered"
    assert world.sql("SELECT count(*) FROM reminders.keys_seen") == [(0,)]
    assert purging.step(world.database, current, 100, 100, 5000).marked == 1


def test_a_step_holds_no_lock_while_the_purge_itself_does_not_run(world, monkeypatch):
    """It is one message, committed by its end: a purge that is frozen, or waits for the machine, keeps nobody waiting."""
    delivered(world)
    current = purging.join_pass(world.database, 86400.0, datetime.now(UTC) + timedelta(days=2))
    messages = []

    def counted(*given):
        messages.append(given)
        return original(*given)

    original = world.database.fetch_together
    monkeypatch.setattr(world.database, "fetch_together", counted)
    for way in ("transaction", "fetch", "fetch_in_loops", "fetch_within", "fetch_marked"):
        monkeypatch.delattr(type(world.database), way)
    done = purging.step(world.database, current, 100, 100, 5000)
    monkeypatch.undo()
    assert (done, len(messages)) == (purging.Step(1, 0, more=False), 1)
    assert world.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == [(0,)]
    assert world.sql("SELECT marked FROM reminders.purges") == [(1,)]

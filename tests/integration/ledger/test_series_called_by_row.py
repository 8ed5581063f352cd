"""Snoozing, moving and cancelling the reminder that a turn of a series has become: that turn, never the series."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.series_stage import DAY, HOUR, NOON, START, at
from integration.ledger.test_sql_schedule import committed
from reminders.ledger import series_changing

FIRST = "20300502T090000"


def only_live(world):
    ((made,),) = world.sql("SELECT id FROM reminders.due")
    return str(made)


@pytest.mark.parametrize("language", ["python", "sql"])
def test_a_snooze_moves_one_turn_and_the_series_keeps_its_own(stage, world, language):
    series = stage.schedule()
    turn = only_live(world)
    if language == "python":
        world.committed(reminders.snooze, turn, by=HOUR)
    else:
        committed(world, "snooze", id=turn, by="1 hour")
    assert stage.live(series) == [(FIRST, at(2, 8))]
    assert world.column("reminders", "moved_at", turn) is not None
    # An edit leaves where it is what a person has moved.
    stage.edit(series, NOON, data={"n": 2})
    assert stage.live(series) == [(FIRST, at(2, 8))]


@pytest.mark.parametrize("language", ["python", "sql"])
def test_what_a_paused_series_has_withdrawn_is_cancelled_for_good_with_the_rest(stage, world, language):
    series = stage.schedule()
    turn = only_live(world)
    stage.committed(series_changing.pause, series.id, now=NOON)
    assert world.column("reminders", "withdrawn_at", turn) is not None
    asked = {"tenant_id": "tenant-a", "user_id": "user-1"}
    if language == "python":
        assert [str(each) for each in world.committed(reminders.cancel_where, **asked).cancelled] == [turn]
        assert world.committed(reminders.cancel_where, **asked).cancelled == ()
    else:
        assert committed(world, "cancel_where", **asked)[0] == f"{{{turn}}}"
    assert world.column("reminders", "withdrawn_at", turn) is None
    stage.committed(series_changing.resume, series.id, now=NOON)
    assert (FIRST, at(2, 7)) not in stage.live(series)


def test_a_policy_on_lateness_holds_for_what_sql_schedules(world):
    world.sql("INSERT INTO reminders.lateness_policies (tenant_id, max_lateness) VALUES ('tenant-a', 3600)")
    try:
        made, *_ = committed(world, "schedule", **world.wanted(due_at=START.astimezone() + DAY))
        assert world.column("reminders", "expires_at", made) - world.column("reminders", "due_at", made) == timedelta(
            hours=1
        )
    finally:
        world.sql("DELETE FROM reminders.lateness_policies")

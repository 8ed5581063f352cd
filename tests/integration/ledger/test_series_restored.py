"""A turn that was left out and is wanted again, whatever has become of its time meanwhile."""

from __future__ import annotations

from datetime import datetime

from integration.ledger.series_stage import NOON, at
from reminders.ledger import series_turns


def wall(day: int) -> datetime:
    return datetime(2030, 5, day, 9)


def left_out_and_back(stage, series, day, *, out, back):
    stage.committed(series_turns.skip, series.id, wall(day), now=out)
    return stage.committed(series_turns.restore, series.id, wall(day), now=back)


def row(stage, series, day):
    return next(found for found in stage.rows(series) if found[0] == f"203005{day:02}T090000")


def test_a_minute_after_its_time_it_is_sent_late(stage):
    series = stage.schedule()
    stage.plan(at(2, 7))
    left_out_and_back(stage, series, 2, out=at(2, 7, 1), back=at(2, 7, 2))
    assert row(stage, series, 2)[1:] == (at(2, 7), "pending")
    assert row(stage, series, 3)[2] == "pending"


def test_too_late_to_be_sent_it_is_on_record(stage):
    series = stage.schedule(catch_up="skip")
    stage.plan(at(2, 7))
    left_out_and_back(stage, series, 2, out=at(2, 7, 1), back=at(2, 12))
    assert row(stage, series, 2)[2] == "withdrawn"
    skipped = stage.world.sql("SELECT recurrence_id, reason FROM reminders.series_skips")
    assert skipped == [("20300502T090000", "too_late")]


def test_moved_further_than_its_successor_it_keeps_that_time(stage):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, wall(2), due_at=at(10, 7), now=NOON)
    stage.plan(at(2, 7))
    left_out_and_back(stage, series, 2, out=at(2, 8), back=at(3, 6))
    assert row(stage, series, 2)[1:] == (at(10, 7), "pending")


def test_moved_ahead_of_its_time_it_keeps_that_time(stage):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, wall(8), due_at=at(4, 7), now=NOON)
    left_out_and_back(stage, series, 8, out=NOON, back=NOON)
    assert row(stage, series, 8)[1:] == (at(4, 7), "pending")


def test_the_last_turn_of_a_series_that_has_ended(stage):
    series = stage.schedule(rule="FREQ=DAILY;UNTIL=20300502")
    stage.committed(series_turns.move, series.id, wall(2), due_at=at(10, 7), now=NOON)
    stage.plan(at(2, 7))
    assert stage.get(series).status == "ended"
    assert left_out_and_back(stage, series, 2, out=at(3, 7), back=at(4, 7)).status == "ended"
    assert row(stage, series, 2)[1:] == (at(10, 7), "pending")

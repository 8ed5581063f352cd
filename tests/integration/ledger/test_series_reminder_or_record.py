"""A turn is a reminder or on record as skipped, never both, whichever it was first; and what a fault kept back is one of them."""

from __future__ import annotations

from datetime import datetime

import pytest

import reminders
from integration.ledger.series_stage import HOUR, NOON, at
from integration.ledger.test_sql_schedule import committed
from reminders.domain.errors import InvalidInput
from reminders.ledger import series_changing, series_reading, series_turns


def wall(day: int, hour: int = 9) -> datetime:
    return datetime(2030, 5, day, hour)


def turn(day: int) -> str:
    return f"203005{day:02}T090000"


def records(stage, series):
    return [(name, reason) for name, reason, _, _ in stage.skips(series)]


def shown_as_moved(stage, series):
    made = stage.committed(series_reading.occurrences_of, series.id, 20)
    return [each.recurrence_id for each in made if each.moved]


class TestAFault:
    """It keeps the planner from a series until an edit cures it."""

    def faulty(self, stage, **changed):
        series = stage.schedule(catch_up="all", **changed)
        stage.world.sql("UPDATE reminders.series SET fault = 'x', plan_at = %s WHERE id = %s", at(9, 0), str(series.id))
        return series

    def test_what_was_missed_is_made_after_an_edit_as_the_edit_has_it(self, stage):
        series = self.faulty(stage)
        stage.edit(series, at(5, 12), destination="elsewhere")
        assert stage.live(series) == [(turn(day), at(day, 7)) for day in (2, 3, 4, 5, 6)]
        query = "SELECT destination FROM reminders.reminders WHERE recurrence_id = %s"
        assert stage.world.sql(query, turn(3)) == [("elsewhere",)]
        assert (stage.get(series).fault, stage.get(series).plan_at) == (None, at(6, 7))

    def test_it_was_missed_by_the_rule_of_then(self, stage):
        series = self.faulty(stage)
        stage.edit(series, at(5, 12), rule="FREQ=WEEKLY;BYDAY=MO")
        assert stage.live(series) == [*((turn(day), at(day, 7)) for day in (2, 3, 4, 5)), (turn(6), at(6, 7))]
        assert datetime(2030, 5, 6).weekday() == 0

    def test_it_is_recorded_where_the_policy_does_not_make_it(self, stage):
        series = self.faulty(stage)
        stage.edit(series, at(5, 12), catch_up="skip", zone="Europe/London")
        made = [name for name, _ in stage.live(series)]
        assert sorted([*made, *(name for name, _ in records(stage, series))]) == [turn(day) for day in (2, 3, 4, 5, 6)]

    def test_of_more_turns_than_a_look_takes_none_is_lost(self, stage):
        series = self.faulty(stage, rule="FREQ=MINUTELY")
        stage.edit(series, at(9, 12), rule="FREQ=DAILY")
        counted = sum(count for _, _, _, count in stage.skips(series))
        made = sum(due <= at(9, 12) for _, due in stage.live(series))
        # The second half of 1 May and eight days and a half by the minute, the first of which nobody had decided on.
        assert counted + made == 8 * 24 * 60

    def test_by_a_rule_that_nobody_can_read_it_counts_by_the_new_one(self, stage):
        series = self.faulty(stage)
        stage.world.sql("UPDATE reminders.series SET rule = 'FREQ=LUNAR' WHERE id = %s", str(series.id))
        stage.edit(series, at(4, 12), rule="FREQ=DAILY")
        assert stage.live(series) == [(turn(day), at(day, 7)) for day in (2, 3, 4, 5)]

    def test_a_pause_takes_it_in(self, stage):
        series = self.faulty(stage)
        stage.committed(series_changing.pause, series.id, now=at(4, 12))
        stage.committed(series_changing.resume, series.id, now=at(4, 13))
        assert records(stage, series) == [(turn(3), "paused"), (turn(4), "paused")]
        assert stage.live(series) == [(turn(2), at(2, 7)), (turn(5), at(5, 7))]


def test_moved_before_a_pause_it_is_a_reminder_after_it(stage):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, wall(3), due_at=at(5, 9), now=NOON)
    stage.committed(series_changing.pause, series.id, now=at(1, 13))
    stage.committed(series_changing.resume, series.id, now=at(4, 10))
    assert stage.live(series) == [(turn(5), at(5, 7)), (turn(3), at(5, 9))]
    assert records(stage, series) == [(turn(2), "paused"), (turn(4), "paused")]


def test_moved_into_a_pause_it_is_on_record_at_that_time(stage):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, wall(2), due_at=at(3, 9), now=NOON)
    stage.committed(series_changing.pause, series.id, now=at(1, 13))
    stage.committed(series_changing.resume, series.id, now=at(3, 10))
    assert [(name, lateness) for name, _, lateness, _ in stage.skips(series)] == [(turn(3), 3 * HOUR), (turn(2), HOUR)]
    assert stage.live(series) == [(turn(4), at(4, 7))]


def test_clocks_that_go_back_before_the_planner_looks_make_no_record_of_what_was_sent(stage):
    series = stage.schedule(catch_up="skip")
    stage.plan(at(2, 7))
    stage.world.sql("UPDATE reminders.series SET zone = 'America/New_York', replan = true, plan_at = %s", at(3, 8))
    stage.plan(at(3, 20))
    assert records(stage, series) == []
    assert stage.live(series) == [(turn(2), at(2, 7)), (turn(3), at(3, 7)), (turn(4), at(4, 13))]


@pytest.mark.parametrize("language", ["python", "sql"])
def test_superseded_and_then_moved_it_is_a_reminder_only(stage, language):
    series = stage.schedule()
    stage.plan(at(4, 8))
    assert records(stage, series) == [(turn(3), "superseded")]
    stage.committed(series_turns.move, series.id, wall(3), due_at=at(20, 9), now=at(4, 9))
    assert records(stage, series) == []
    assert (turn(3), at(20, 9)) in stage.live(series)
    # And one that a pause had taken back, by the reminder's own id.
    stage.committed(series_changing.pause, series.id, now=at(4, 10))
    stage.committed(series_changing.resume, series.id, now=at(5, 10))
    assert records(stage, series) == [(turn(5), "paused")]
    id_ = stage.id_of(series, turn(5))
    if language == "python":
        stage.world.committed(reminders.reschedule, id_, due_at=at(21, 9))
    else:
        committed(stage.world, "reschedule", id=id_, due_at=at(21, 9))
    assert records(stage, series) == []
    assert (turn(5), at(21, 9)) in stage.live(series)


def test_left_out_before_its_turn_came_and_wanted_after_it_it_is_one_of_them(stage):
    series = stage.schedule(catch_up="all")
    stage.committed(series_turns.skip, series.id, wall(4), now=NOON)
    stage.plan(at(4, 8))
    stage.committed(series_turns.restore, series.id, wall(4), now=at(4, 9))
    assert (turn(4), at(4, 7)) in stage.live(series)
    other = stage.schedule(catch_up="skip", reference="another")
    stage.committed(series_turns.skip, other.id, wall(4), now=NOON)
    stage.plan(at(4, 8))
    stage.committed(series_turns.restore, other.id, wall(4), now=at(4, 9))
    assert (turn(4), "too_late") in records(stage, other)


@pytest.mark.parametrize("day", [2, 4])
def test_left_out_and_wanted_again_in_a_pause_it_is_on_record(stage, day):
    series = stage.schedule()
    stage.committed(series_turns.skip, series.id, wall(day), now=NOON)
    stage.committed(series_changing.pause, series.id, now=NOON)
    stage.committed(series_turns.restore, series.id, wall(day), now=at(5, 9))
    assert {name for name, _ in records(stage, series)} == {turn(2), turn(3), turn(4), turn(5)}


def test_the_last_one_left_out_and_wanted_again_lets_the_series_go_on(stage):
    series = stage.schedule(rule="FREQ=DAILY;UNTIL=20300503")
    stage.committed(series_turns.skip, series.id, wall(3), now=NOON)
    stage.plan(at(2, 7))
    assert stage.get(series).status == "ended"
    assert stage.committed(series_turns.restore, series.id, wall(3), now=at(2, 8)).status == "active"
    assert (turn(3), at(3, 7)) in stage.live(series)


class TestMoving:
    def test_a_turn_from_before_the_series_is_refused(self, stage):
        series = stage.schedule()
        with pytest.raises(
            InvalidInput, match=r"^turn: 2030-05-01 09:00:00 .* is from before the series was scheduled$"
        ):
            stage.committed(series_turns.move, series.id, wall(1), due_at=at(20, 9), now=NOON)
        assert stage.live(series) == [(turn(2), at(2, 7))]

    def test_a_turn_that_passed_before_an_edit_gave_it_is_refused(self, stage):
        series = stage.schedule(rule="FREQ=WEEKLY;BYDAY=MO")
        stage.edit(series, at(4, 12), rule="FREQ=DAILY")
        with pytest.raises(
            InvalidInput, match=r"^turn: 2030-05-03 09:00:00 .* has passed, and is neither a reminder nor"
        ):
            stage.committed(series_turns.move, series.id, wall(3), due_at=at(20, 9), now=at(4, 13))

    def test_away_and_back_it_is_as_if_never_moved(self, stage):
        series = stage.schedule(start=wall(2))
        stage.committed(series_turns.move, series.id, wall(2), due_at=at(2, 12), now=NOON)
        assert shown_as_moved(stage, series) == [turn(2)]
        stage.committed(series_turns.move, series.id, wall(2), due_at=at(2, 7), now=NOON)
        assert shown_as_moved(stage, series) == []
        stage.edit(series, NOON, zone="America/New_York")
        assert stage.live(series) == [(turn(2), at(2, 13))]

    def test_away_and_back_before_a_pause_it_is_as_if_never_moved(self, stage):
        series = stage.schedule(start=wall(2))
        stage.committed(series_turns.move, series.id, wall(2), due_at=at(2, 12), now=NOON)
        stage.committed(series_turns.move, series.id, wall(2), due_at=at(2, 7), now=NOON)
        stage.committed(series_changing.pause, series.id, now=NOON)
        stage.edit(series, NOON, zone="Asia/Tokyo")
        stage.committed(series_changing.resume, series.id, now=NOON)
        assert stage.live(series) == [(turn(2), at(2, 0))]

"""Edits, pauses, skips and moves of series: future occurrences follow, what has come due does not, no key fires twice."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

import reminders
from integration.ledger.series_stage import DAY, HOUR, NOON, START, at, wanted
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.outcomes import Unknown
from reminders.ledger import series_changing, series_turns

FIRST, SECOND, THIRD = "20300502T090000", "20300503T090000", "20300504T090000"


def keys(world, series):
    query = "SELECT recurrence_id, version, delivery_key FROM reminders.reminders WHERE series_id = %s"
    return {turn: (version, key) for turn, version, key in world.sql(query, str(series.id))}


def test_an_edit_withdraws_what_the_new_rule_does_not_give_and_makes_what_it_does(stage):
    series = stage.schedule()
    edited = stage.edit(series, NOON, rule="FREQ=WEEKLY;BYDAY=FR")
    assert stage.rows(series) == [(FIRST, at(2, 7), "withdrawn"), (SECOND, at(3, 7), "pending")]
    assert (edited.version, edited.plan_at) == (2, at(3, 7))


def test_an_edit_back_revives_what_was_withdrawn_under_a_new_key(stage, world):
    series = stage.schedule()
    before = keys(world, series)[FIRST]
    stage.edit(series, NOON, rule="FREQ=WEEKLY;BYDAY=FR")
    stage.edit(series, NOON, rule="FREQ=DAILY")
    assert stage.rows(series) == [(FIRST, at(2, 7), "pending"), (SECOND, at(3, 7), "withdrawn")]
    version, key = keys(world, series)[FIRST]
    assert version == 2
    assert key != before[1]
    # The planner meets the other one when its turn comes.
    stage.plan(at(2, 8))
    assert stage.live(series) == [(FIRST, at(2, 7)), (SECOND, at(3, 7))]


def test_an_edit_leaves_what_has_come_due_and_ended_alone(stage, world):
    series = stage.schedule()
    stage.plan(at(2, 8))
    made = world.sql("SELECT id, delivery_key FROM reminders.reminders WHERE recurrence_id = %s", FIRST)
    stage.edit(series, at(2, 8), rule="FREQ=WEEKLY;BYDAY=MO", destination="elsewhere")
    assert stage.rows(series) == [
        (FIRST, at(2, 7), "pending"),
        (SECOND, at(3, 7), "withdrawn"),
        ("20300506T090000", at(6, 7), "pending"),
    ]
    assert world.sql("SELECT id, delivery_key FROM reminders.reminders WHERE recurrence_id = %s", FIRST) == made
    assert world.sql("SELECT destination FROM reminders.reminders ORDER BY due_at") == [
        ("somewhere",),
        ("somewhere",),
        ("elsewhere",),
    ]


def test_another_zone_keeps_the_turn_and_its_identity_and_moves_its_instant(stage, world):
    series = stage.schedule()
    ((identity,),) = world.sql("SELECT identity_key FROM reminders.reminders")
    stage.edit(series, at(1, 14), zone="America/New_York")
    assert stage.live(series) == [(FIRST, at(2, 13))]
    ((after, zone),) = world.sql("SELECT identity_key, zone FROM reminders.reminders")
    assert (bytes(after), zone) == (bytes(identity), "America/New_York")


def test_a_zone_whose_clocks_are_ahead_makes_late_what_it_has_put_into_the_past(stage):
    """In New York the second of May would come at 13:00 UTC; in Tokyo it came at midnight."""
    series = stage.schedule(at(1, 14), zone="America/New_York")
    stage.edit(series, at(2, 2), zone="Asia/Tokyo")
    assert stage.live(series) == [(FIRST, at(2, 0)), (SECOND, at(3, 0))]
    assert stage.expires_at(series, FIRST) == at(3, 0)


def test_a_series_that_skips_what_it_missed_skips_that_too(stage):
    series = stage.schedule(at(1, 14), zone="America/New_York", catch_up="skip")
    stage.edit(series, at(2, 2), zone="Asia/Tokyo")
    assert stage.rows(series) == [(FIRST, at(2, 13), "withdrawn"), (SECOND, at(3, 0), "pending")]
    assert stage.skips(series) == [(FIRST, "too_late", 2 * HOUR, 1)]


def test_a_zone_whose_clocks_are_behind_fires_no_turn_twice(stage, world):
    """Delivered at nine in Berlin; in New York nine is still to come."""
    series = stage.schedule()
    stage.plan(at(2, 7))
    first = stage.id_of(series, FIRST)
    world.published(at(2, 7))
    key = world.column("reminders", "delivery_key", first)
    assert world.deliver(ScriptedProvider(), now=at(2, 7))(first, key) == "delivered"
    stage.edit(series, at(2, 8), zone="America/New_York")
    assert stage.live(series) == []
    stage.plan(at(2, 13))
    assert stage.rows(series) == [(FIRST, at(2, 7), "delivered"), (SECOND, at(3, 13), "pending")]


def test_other_content_reaches_the_next_one_and_what_a_person_has_moved(stage, world):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, START + 3 * DAY, due_at=at(9, 9), now=NOON)
    stage.edit(series, NOON, destination="elsewhere", data={"pill": 2})
    query = "SELECT recurrence_id, due_at, destination, data FROM reminders.reminders ORDER BY due_at"
    assert [(turn, where, data) for turn, _, where, data in world.sql(query)] == [
        (FIRST, "elsewhere", {"pill": 2}),
        (THIRD, "elsewhere", {"pill": 2}),
    ]
    assert stage.live(series) == [(FIRST, at(2, 7)), (THIRD, at(9, 9))]


def test_what_a_person_has_moved_keeps_its_time_through_edits(stage):
    series = stage.schedule()
    stage.committed(series_turns.move, series.id, START + DAY, due_at=at(2, 15), now=NOON)
    stage.edit(series, NOON, rule="FREQ=WEEKLY;BYDAY=MO")
    assert stage.live(series) == [(FIRST, at(2, 15)), ("20300506T090000", at(6, 7))]


def test_a_person_who_reschedules_an_occurrence_has_moved_it(stage, world):
    series = stage.schedule()
    world.committed(reminders.reschedule, stage.id_of(series, FIRST), due_at=at(2, 15))
    stage.edit(series, at(1, 14), zone="America/New_York")
    # Its turn is still the next one, and is not made a second time.
    assert stage.live(series) == [(FIRST, at(2, 15))]
    assert stage.get(series).plan_at == at(2, 13)


def test_an_edit_first_decides_on_what_came_due_by_the_old_rule(stage):
    series = stage.schedule(catch_up="all")
    stage.edit(series, at(4, 8), rule="FREQ=WEEKLY;BYDAY=MO")
    assert stage.live(series) == [
        (FIRST, at(2, 7)),
        (SECOND, at(3, 7)),
        (THIRD, at(4, 7)),
        ("20300506T090000", at(6, 7)),
    ]


def test_an_ended_series_goes_on_when_an_edit_gives_it_new_turns(stage):
    series = stage.schedule(rule="FREQ=DAILY;COUNT=2")
    stage.plan(at(2, 8))
    assert stage.get(series).status == "ended"
    edited = stage.edit(series, at(2, 8), rule="FREQ=DAILY;COUNT=4")
    assert (edited.status, edited.plan_at) == ("active", at(3, 7))
    assert stage.edit(series, at(2, 8), rule="FREQ=DAILY;COUNT=2").status == "ended"
    assert stage.rows(series) == [(FIRST, at(2, 7), "pending"), (SECOND, at(3, 7), "withdrawn")]


def test_what_may_have_been_sent_is_left_alone_by_every_edit(stage, world):
    """A redrive or a caller may have put such a reminder off into the future."""
    series = stage.schedule()
    first = stage.id_of(series, FIRST)
    world.published(at(2, 7))
    key = world.column("reminders", "delivery_key", first)
    world.deliver(ScriptedProvider(Unknown("reset", "")), now=at(2, 7))(first, key)
    world.sql("UPDATE reminders.reminders SET due_at = %s WHERE id = %s", at(2, 20), first)
    stage.edit(series, NOON, rule="FREQ=WEEKLY;BYDAY=MO")
    assert world.column("reminders", "status", first) in {"live", "dead"}
    assert world.column("reminders", "withdrawn_at", first) is None


def test_a_pause_withdraws_what_is_to_come_and_a_resume_goes_on_from_then(stage):
    series = stage.schedule()
    paused = stage.committed(series_changing.pause, series.id, now=NOON)
    assert (paused.status, paused.plan_at) == ("paused", None)
    assert stage.rows(series) == [(FIRST, at(2, 7), "withdrawn")]
    assert stage.plan(at(4, 8)) == 0
    resumed = stage.committed(series_changing.resume, series.id, now=at(4, 8))
    assert (resumed.status, resumed.plan_at) == ("active", at(5, 7))
    assert stage.rows(series) == [(FIRST, at(2, 7), "withdrawn"), ("20300505T090000", at(5, 7), "pending")]
    assert stage.skips(series) == [
        (FIRST, "paused", timedelta(days=2, hours=1), 1),
        (SECOND, "paused", timedelta(days=1, hours=1), 1),
        (THIRD, "paused", timedelta(hours=1), 1),
    ]


def test_paused_and_resumed_at_once_it_is_as_before_but_for_the_key(stage):
    series = stage.schedule()
    for call in (series_changing.pause, series_changing.pause, series_changing.resume, series_changing.resume):
        stage.committed(call, series.id, now=NOON)
    assert stage.rows(series) == [(FIRST, at(2, 7), "pending")]
    assert stage.skips(series) == []


def test_a_pause_brings_back_what_a_person_had_moved_if_its_time_is_still_to_come(stage):
    series = stage.schedule()
    for day, moved_to in ((1, at(6, 9)), (2, at(3, 9))):
        stage.committed(series_turns.move, series.id, START + day * DAY, due_at=moved_to, now=NOON)
    stage.committed(series_changing.pause, series.id, now=NOON)
    stage.committed(series_changing.resume, series.id, now=at(4, 8))
    assert stage.rows(series) == [
        (SECOND, at(3, 9), "withdrawn"),
        ("20300505T090000", at(5, 7), "pending"),
        (FIRST, at(6, 9), "pending"),
    ]
    assert (SECOND, "paused") in [(turn, reason) for turn, reason, _, _ in stage.skips(series)]


def test_an_edit_of_a_paused_series_waits_for_its_resume(stage):
    series = stage.schedule()
    stage.committed(series_changing.pause, series.id, now=NOON)
    assert stage.edit(series, NOON, rule="FREQ=WEEKLY;BYDAY=MO").status == "paused"
    assert stage.live(series) == []
    stage.committed(series_changing.resume, series.id, now=NOON)
    assert stage.live(series) == [("20300506T090000", at(6, 7))]


def test_a_skipped_turn_is_not_made_and_the_one_after_it_is(stage):
    series = stage.schedule()
    assert stage.committed(series_turns.skip, series.id, START + DAY, now=NOON) == "cancelled"
    assert stage.rows(series) == [(FIRST, at(2, 7), "withdrawn"), (SECOND, at(3, 7), "pending")]
    # Also by its instant, and one that is not made yet.
    assert stage.committed(series_turns.skip, series.id, at(4, 7), now=NOON) == "cancelled"
    stage.plan(at(3, 8))
    assert [turn for turn, _ in stage.live(series)] == [SECOND, "20300505T090000"]


def test_a_skip_taken_back_brings_the_turn_back(stage):
    series = stage.schedule()
    stage.committed(series_turns.skip, series.id, START + DAY, now=NOON)
    stage.committed(series_turns.restore, series.id, START + DAY, now=NOON)
    assert stage.rows(series) == [(FIRST, at(2, 7), "pending"), (SECOND, at(3, 7), "withdrawn")]
    with pytest.raises(NotFound, match="does not skip"):
        stage.committed(series_turns.restore, series.id, START + DAY, now=NOON)


def test_a_skip_lengthens_the_life_of_the_turn_before_it(stage):
    series = stage.schedule()
    assert stage.expires_at(series, FIRST) == at(3, 7)
    stage.committed(series_turns.skip, series.id, START + 2 * DAY, now=NOON)
    assert stage.expires_at(series, FIRST) == at(4, 7)


@pytest.mark.parametrize("turn", [START + timedelta(minutes=1), at(2, 8), datetime(2031, 1, 1, 12)])
def test_a_turn_that_the_rule_does_not_give_is_refused_with_the_nearest(stage, turn):
    series = stage.schedule()
    with pytest.raises(InvalidInput, match="nearest one is 20") as refused:
        stage.committed(series_turns.skip, series.id, turn, now=NOON)
    assert refused.value.field == "turn"


def test_a_wall_time_that_comes_twice_must_be_given_as_an_instant(stage):
    series = stage.schedule(
        start=datetime(2030, 10, 26, 0, 30), rule="FREQ=HOURLY", now=at(26, 12, month=10), reference="hourly"
    )
    with pytest.raises(InvalidInput, match="comes twice"):
        stage.committed(series_turns.skip, series.id, datetime(2030, 10, 27, 2, 30), now=at(26, 12, month=10))
    stage.committed(series_turns.skip, series.id, at(27, 1, 30, month=10), now=at(26, 12, month=10))
    stage.plan(at(27, 0, 31, month=10))
    assert [due for _, due in stage.live(series)][-1] == at(27, 2, 30, month=10)


def test_a_turn_is_moved_before_it_is_made_and_is_not_made_again(stage):
    series = stage.schedule()
    moved = stage.committed(series_turns.move, series.id, START + 2 * DAY, due_at=at(2, 15), now=NOON)
    assert moved.due_at == at(2, 15)
    assert stage.live(series) == [(FIRST, at(2, 7)), (SECOND, at(2, 15))]
    stage.plan(at(2, 8))
    stage.plan(at(3, 8))
    assert [turn for turn, _ in stage.live(series)] == [FIRST, SECOND, THIRD]


def test_a_turn_whose_time_has_passed_unsent_can_still_be_moved(stage):
    series = stage.schedule()
    stage.plan(at(5, 8))
    assert [turn for turn, _, _, _ in stage.skips(series)] == [SECOND, THIRD]
    stage.committed(series_turns.move, series.id, START + 3 * DAY, due_at=at(5, 10), now=at(5, 8))
    assert (THIRD, at(5, 10)) in stage.live(series)


def test_a_move_is_refused_as_reschedule_is(stage, world):
    series = stage.schedule()
    first = stage.id_of(series, FIRST)
    world.published(at(2, 7))
    key = world.column("reminders", "delivery_key", first)
    world.deliver(ScriptedProvider(), now=at(2, 7))(first, key)
    with pytest.raises(Refused, match="already delivered"):
        stage.committed(series_turns.move, series.id, START + DAY, due_at=at(9, 9), now=at(2, 8))


def test_cancelling_a_series_cancels_everything_that_is_open_and_says_what_became_of_it(stage, world):
    series = stage.schedule(catch_up="all")
    stage.plan(at(4, 8))
    first, second = stage.id_of(series, FIRST), stage.id_of(series, SECOND)
    world.published(at(4, 8))
    keys = dict(world.sql("SELECT id::text, delivery_key FROM reminders.reminders"))
    claims = world.claims(at(4, 8))
    assert claims.claim(first, keys[first], series.id, 30.0) is not None
    world.deliver(ScriptedProvider(Unknown("reset", "")), now=at(4, 8))(second, keys[second])
    answers = stage.committed(series_changing.cancel, series.id, now=at(4, 8))
    assert sorted(answers.values()) == ["cancelled", "cancelled", "maybe_sent", "requested"]
    found = stage.get(series)
    assert (found.status, found.plan_at) == ("cancelled", None)
    assert stage.plan(at(9, 8)) == 0
    with pytest.raises(Refused, match="is cancelled"):
        stage.edit(series, at(9, 8), rule="FREQ=WEEKLY")
    assert set(stage.committed(series_changing.cancel, series.id).values()) <= {"requested"}


def test_what_a_person_has_cancelled_no_series_revives(stage, world):
    series = stage.schedule()
    first = stage.id_of(series, FIRST)
    stage.committed(series_changing.pause, series.id, now=NOON)
    assert world.committed(reminders.cancel, first) == "cancelled"
    stage.committed(series_changing.resume, series.id, now=NOON)
    assert stage.rows(series) == [(FIRST, at(2, 7), "cancelled")]
    stage.plan(at(2, 8))
    assert stage.live(series) == [(SECOND, at(3, 7))]


def test_a_withdrawn_turn_is_not_purged_before_its_time(stage, world):
    from reminders.ledger import purge_counting, purging

    series = stage.schedule(rule="FREQ=YEARLY")
    stage.committed(series_changing.pause, series.id, now=NOON)
    world.sql(
        "UPDATE reminders.reminders SET created_at = now() - interval '1 year', finished_at = now() - interval '1 year'"
    )
    cutoff = purging.cutoff_of(world.database, 86400.0, None)
    assert purge_counting.count(world.database, 86400.0, cutoff, 100) == (0, 0)
    world.sql("UPDATE reminders.reminders SET withdrawn_at = NULL")
    assert purge_counting.count(world.database, 86400.0, cutoff, 100) == (1, 0)


def test_every_change_belongs_to_the_callers_transaction(stage, world):
    series = stage.schedule()
    connection = world.connect()
    for call in (
        lambda: reminders.skip_occurrence(connection, series.id, START + DAY),
        lambda: reminders.edit_series(connection, series.id, rule="FREQ=WEEKLY"),
        lambda: reminders.pause_series(connection, series.id),
        lambda: reminders.cancel_series(connection, series.id),
    ):
        call()
        connection.rollback()
        assert stage.rows(series) == [(FIRST, at(2, 7), "pending")]
        assert stage.get(series).version == 1


def test_the_api_as_an_application_uses_it(world):
    with world.connect() as connection:
        made = reminders.schedule_series(connection, **wanted(reference="all"))
        assert reminders.get_series(connection, made.id).rule == "FREQ=DAILY"
        assert reminders.edit_series(connection, str(made.id), start=datetime(2030, 5, 1, 8)).version == 2
        assert reminders.pause_series(connection, made.id).status == "paused"
        resumed = reminders.resume_series(connection, made.id)
        turn = resumed.next_at
        assert reminders.skip_occurrence(connection, made.id, turn) == "cancelled"
        assert reminders.restore_occurrence(connection, made.id, turn).next_at == turn
        moved = reminders.move_occurrence(
            connection, made.id, turn, due_at=datetime(2031, 1, 1, 9), zone="Europe/Berlin"
        )
        assert reminders.get(connection, moved.id).due_at == datetime(2031, 1, 1, 8, tzinfo=turn.tzinfo)
        assert list(reminders.cancel_series(connection, made.id).values()) == ["cancelled"]
        with pytest.raises(InvalidInput, match="series_id"):
            reminders.get_series(connection, "no id")
        with pytest.raises(NotFound):
            reminders.get_series(connection, moved.id)


def test_a_planner_and_an_edit_at_once_neither_wait_nor_double(stage, world):
    series = stage.schedule()
    holder = world.connect()
    series_changing.ready_to_change(holder, "reminders", series.id, at(2, 8))
    assert stage.plan(at(2, 8)) == 0
    holder.commit()
    assert stage.plan(at(2, 8)) == 0
    assert [turn for turn, _ in stage.live(series)] == [FIRST, SECOND]

"""The planner: always exactly the next turn, whatever became of the last; killed, doubled or late, none is lost or doubled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Barrier

import psycopg2
import pytest

import reminders
from integration.ledger.series_stage import DAY, HOUR, NOON, START, at, wanted
from reminders.domain.errors import Conflict, InvalidInput
from reminders.ledger import occurrences, planning
from reminders.ledger.database import Database


def test_scheduling_makes_the_next_turn_in_the_callers_transaction(stage, world):
    before = datetime.now(UTC)
    with world.connect() as connection:
        made = reminders.schedule_series(connection, **wanted(start=datetime(2020, 1, 1, 9)))
        assert made.created
        assert world.sql("SELECT count(*) FROM reminders.series") == [(0,)]
    after = datetime.now(UTC)
    ((turn, due),) = stage.live(made)
    # A day has an hour more where the clocks are set back.
    assert before < due <= after + DAY + HOUR
    assert due == made.next_at
    assert turn == due.astimezone(reminders_zone()).strftime("%Y%m%dT%H%M%S")
    reference = world.sql("SELECT reference, zone FROM reminders.reminders")
    assert reference == [("pills", "Europe/Berlin")]


def reminders_zone():
    from reminders.calendar.zones import load_zone

    return load_zone("Europe/Berlin")


def test_a_rolled_back_caller_leaves_no_series_and_no_reminder(world):
    connection = world.connect()
    reminders.schedule_series(connection, **wanted())
    connection.rollback()
    assert world.sql("SELECT (SELECT count(*) FROM reminders.series), (SELECT count(*) FROM reminders.reminders)") == [
        (0, 0)
    ]


def test_the_same_again_is_the_same_and_other_content_a_conflict_that_spoils_nothing(stage, world):
    with world.connect() as connection:
        first = reminders.schedule_series(connection, **wanted())
        again = reminders.schedule_series(connection, **wanted())
        assert (again.id, again.created) == (first.id, False)
        with pytest.raises(Conflict, match="already stands"):
            reminders.schedule_series(connection, **wanted(rule="FREQ=WEEKLY"))
        other = reminders.schedule_series(connection, **wanted(slot="evening"))
    assert other.id != first.id
    assert len(stage.live(first)) == 1


def test_two_at_once_make_one_series(stage, world):
    barrier = Barrier(2)

    def schedule():
        with world.connect() as connection:
            barrier.wait()
            return reminders.schedule_series(connection, **wanted())

    made = [world.start(schedule) for _ in range(2)]
    results = [each.result() for each in made]
    assert sorted(each.created for each in results) == [False, True]
    assert len({each.id for each in results}) == 1
    assert len(stage.live(results[0])) == 1


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"rule": "FREQ=DAILY;UNTIL=20200101"}, "rule"),
        ({"rule": None, "start": datetime(2020, 1, 1, 9)}, "start"),
        ({"rule": "FREQ=MINUTELY;BYSECOND=1,2"}, "rule"),
        ({"zone": "Berlin"}, "zone"),
        ({"start": START.replace(tzinfo=UTC)}, "start"),
        ({"start": START.replace(microsecond=1)}, "start"),
        ({"extra": [START.replace(tzinfo=UTC)]}, "extra"),
        ({"catch_up": "most"}, "catch_up"),
        ({"max_lateness": 1}, "max_lateness"),
        ({"channel": "pigeon"}, "channel"),
        ({"destination": ""}, "destination"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(world, changed, field):
    with world.connect() as connection:
        with pytest.raises(InvalidInput) as refused:
            reminders.schedule_series(connection, **wanted(**changed))
        assert refused.value.field == field
    assert world.sql("SELECT count(*) FROM reminders.series") == [(0,)]


def test_a_turns_successor_is_made_when_it_comes_due_and_not_before(stage):
    series = stage.schedule()
    assert stage.live(series) == [("20300502T090000", at(2, 7))]
    assert stage.plan(at(2, 6, 59)) == 0
    assert stage.plan(at(2, 7)) == 1
    assert stage.live(series) == [("20300502T090000", at(2, 7)), ("20300503T090000", at(3, 7))]
    assert stage.plan(at(2, 7)) == 0


@pytest.mark.parametrize("fate", ["delivered", "cancelled", "moved", "expired", "purged"])
def test_the_series_goes_on_whatever_became_of_its_last(stage, world, fate):
    series = stage.schedule()
    first = stage.id_of(series, "20300502T090000")
    if fate == "moved":
        world.committed(reminders.reschedule, first, due_at=at(9, 9))
    elif fate == "cancelled":
        world.committed(reminders.cancel, first)
    else:
        query = """WITH gone AS (DELETE FROM reminders.due WHERE id = %s)
                   UPDATE reminders.reminders SET status = %s, finished_at = now() WHERE id = %s"""
        world.sql(query, first, "expired" if fate == "expired" else "delivered", first)
    if fate == "purged":
        world.sql("DELETE FROM reminders.reminders WHERE id = %s", first)
    stage.plan(at(2, 8))
    stage.plan(at(3, 8))
    turns = [turn for turn, _ in stage.live(series)]
    assert turns[:2] == ["20300503T090000", "20300504T090000"]


def test_a_series_that_has_no_turn_left_ends_when_its_last_has_come_due(stage):
    series = stage.schedule(rule="FREQ=DAILY;COUNT=3")
    stage.plan(at(2, 8))
    assert stage.get(series).status == "active"
    stage.plan(at(3, 8))
    found = stage.get(series)
    assert (found.status, found.plan_at) == ("ended", None)
    assert [turn for turn, _ in stage.live(series)] == ["20300502T090000", "20300503T090000"]


def test_extra_and_left_out_times(stage):
    left_out, extra = datetime(2030, 5, 2, 9), datetime(2030, 5, 2, 18, 30)
    series = stage.schedule(extra=[extra], left_out=[left_out])
    assert stage.live(series) == [("20300502T183000", at(2, 16, 30))]


def test_two_planners_at_once_make_each_turn_once(stage, world):
    for number in range(30):
        stage.schedule(reference=f"r-{number}")
    barrier = Barrier(4)

    def run():
        barrier.wait()
        # A slow machine plans one at a time. Whoever finds nothing leaves the rest to who holds it, and who looks again.
        while stage.plan(at(2, 8), limit=7):
            pass

    for each in [world.start(run) for _ in range(4)]:
        each.result()
    counts = world.sql("SELECT recurrence_id, count(*) FROM reminders.reminders GROUP BY 1 ORDER BY 1")
    assert counts == [("20300502T090000", 30), ("20300503T090000", 30)]


class Dies(Exception):
    """The planner's process ends here."""


@pytest.mark.parametrize("where", ["before the first", "after the reminders", "after everything"])
def test_a_planner_killed_anywhere_loses_and_doubles_nothing(stage, world, monkeypatch, where):
    series = stage.schedule()
    steps = {
        "before the first": (planning, "make"),
        "after the reminders": (planning, "record_skips"),
        "after everything": (planning.time, "monotonic"),
    }
    module, name = steps[where]
    if where == "after everything":
        real = planning.decide

        def decide(*given, **named):
            real(*given, **named)
            raise Dies

        monkeypatch.setattr(planning, "decide", decide)
    else:

        def dies(*_given, **_named):
            raise Dies

        monkeypatch.setattr(module, name, dies)
    with pytest.raises(Dies):
        stage.plan(at(2, 8))
    monkeypatch.undo()
    assert [turn for turn, _ in stage.live(series)] == ["20300502T090000"]
    stage.plan(at(2, 8))
    assert [turn for turn, _ in stage.live(series)] == ["20300502T090000", "20300503T090000"]


def test_a_connection_that_dies_at_any_statement_leaves_the_series_to_be_found_again(stage, world, monkeypatch):
    series = stage.schedule()
    count = 0
    for dies_at in range(1, 12):
        count = _plan_dying_at(stage, world, monkeypatch, dies_at)
        if count < dies_at:
            break
        assert [turn for turn, _ in stage.live(series)] == ["20300502T090000"], dies_at
    assert count >= 3
    assert [turn for turn, _ in stage.live(series)] == ["20300502T090000", "20300503T090000"]


def _plan_dying_at(stage, world, monkeypatch, number: int) -> int:
    """Plan, with the server ending the connection before the statement of this number; how many were sent."""
    sent = 0
    real = planning.fetch

    def fetch(connection, schema, statement, **given):
        nonlocal sent
        sent += 1
        if sent == number:
            pid = connection.info.backend_pid
            world.sql("SELECT pg_terminate_backend(%s, 15000)", pid)
        return real(connection, schema, statement, **given)

    with monkeypatch.context() as patch:
        patch.setattr(planning, "fetch", fetch)
        patch.setattr(occurrences, "fetch", fetch)
        try:
            stage.plan(at(2, 8))
        except psycopg2.OperationalError:
            assert sent >= number
    return sent


def test_a_series_this_release_cannot_plan_is_put_off_and_keeps_no_other_from_it(stage, world, caplog):
    bad, good = stage.schedule(reference="bad"), stage.schedule(reference="good")
    world.sql(
        "UPDATE reminders.series SET zone = 'Mars/Olympus', planned_zone = 'Mars/Olympus' WHERE id = %s", str(bad.id)
    )
    stage.plan(at(2, 8))
    assert [turn for turn, _ in stage.live(good)] == ["20300502T090000", "20300503T090000"]
    found = stage.get(bad)
    assert found.fault is not None
    assert "Mars/Olympus" in found.fault
    assert found.plan_at == at(2, 8) + timedelta(seconds=planning.FAULTY_FOR)
    assert f"plan.faulty series={bad.id}" in caplog.text
    world.sql("UPDATE reminders.series SET zone = 'Europe/Berlin', planned_zone = 'Europe/Berlin'")
    stage.plan(at(2, 9))
    assert stage.get(bad).fault is None
    assert [turn for turn, _ in stage.live(bad)] == ["20300502T090000", "20300503T090000"]


def test_an_occurrence_that_an_application_holds_holds_up_no_planner(stage, world):
    """A replan must move it; the others of the batch are planned meanwhile."""
    held, other = stage.schedule(reference="held"), stage.schedule(reference="other")
    holder = world.connect()
    reminders.cancel(holder, stage.id_of(held, "20300502T090000"))
    query = "UPDATE reminders.series SET replan = true, plan_at = %s, rule = 'FREQ=WEEKLY' WHERE id = %s"
    world.sql(query, at(1, 12), str(held.id))
    stage.plan(at(2, 6))
    assert stage.get(held).plan_at == at(2, 6) + timedelta(seconds=planning.TRY_AGAIN_AFTER)
    assert stage.get(held).replan
    holder.rollback()
    stage.plan(at(2, 6, 1))
    assert stage.live(held) == [("20300508T090000", at(8, 7))]
    assert stage.live(other) == [("20300502T090000", at(2, 7))]


def test_a_scan_plans(stage, world):
    series = stage.schedule()
    world.scanning(now=at(2, 8)).once()
    assert ("20300503T090000", at(3, 7)) in stage.live(series)


def test_without_due_series_the_look_is_one_probe_of_an_index(stage, world):
    for number in range(50):
        stage.schedule(reference=f"r-{number}")
    upkeep = world.connect()
    upkeep.autocommit = True
    # What tests before have deleted would be looked at as well.
    upkeep.cursor().execute("VACUUM (ANALYZE) reminders.series")
    assert isinstance(world.database, Database)
    statement = world.database.bound(planning.ANY_DUE).plain
    with world.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", {"now": NOON})
        ((plan,),) = cursor.fetchall()
    text = str(plan)
    assert "series_plan" in text
    assert "Seq Scan" not in text
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] <= 8


def test_an_hour_that_autumn_repeats_and_spring_skips(stage):
    """02:30 in Berlin: once in autumn, at the first; in spring at 03:30."""
    autumn = stage.schedule(now=at(26, 12, month=10), start=datetime(2030, 10, 1, 2, 30), reference="autumn")
    assert stage.live(autumn) == [("20301027T023000", at(27, 0, 30, month=10))]
    stage.plan(at(27, 0, 31, month=10))
    assert stage.live(autumn)[-1] == ("20301028T023000", at(28, 1, 30, month=10))
    spring = stage.schedule(now=at(30, 12, month=3), start=datetime(2030, 3, 1, 2, 30), reference="spring")
    assert stage.live(spring) == [("20300331T023000", at(31, 1, 30, month=3))]

"""After an outage: what is made late, what is skipped and recorded with its lateness; and how late a reminder may be at all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.ledger.series_stage import HOUR, MINUTE, NOON, at
from reminders.ledger.lateness import set_lateness
from reminders.pipeline import plan as planning

FIRST, SECOND, THIRD = "20300502T090000", "20300503T090000", "20300504T090000"
DAYS_2, DAYS_1 = timedelta(days=2, hours=1), timedelta(days=1, hours=1)


def test_latest_makes_the_newest_that_was_missed_and_records_the_others(stage):
    series = stage.schedule()
    stage.plan(at(5, 8))
    assert [turn for turn, _ in stage.live(series)] == [FIRST, "20300505T090000", "20300506T090000"]
    assert stage.skips(series) == [(SECOND, "superseded", DAYS_2, 1), (THIRD, "superseded", DAYS_1, 1)]


def test_under_latest_what_an_outage_delayed_expires_when_its_successor_comes_due(stage, world):
    series = stage.schedule()
    assert stage.expires_at(series, FIRST) == at(3, 7)
    world.scanning(now=at(3, 8)).once()
    assert stage.rows(series)[0] == (FIRST, at(2, 7), "expired")
    assert stage.rows(series)[1][:2] == (SECOND, at(3, 7))


def test_skip_makes_none_that_it_missed_by_more_than_the_grace(stage):
    series = stage.schedule(catch_up="skip")
    assert stage.expires_at(series, FIRST) == at(2, 8)
    stage.plan(at(4, 7, 4))
    assert [turn for turn, _ in stage.live(series)] == [FIRST, THIRD, "20300505T090000"]
    late = stage.schedule(catch_up="skip", reference="late", max_lateness=7200)
    assert stage.expires_at(late, FIRST) == at(2, 9)
    stage.plan(at(4, 7, 6))
    assert [turn for turn, _ in stage.live(late)] == [FIRST, "20300505T090000"]
    assert stage.skips(late) == [
        (SECOND, "too_late", timedelta(days=1, minutes=6), 1),
        (THIRD, "missed", timedelta(minutes=6), 1),
    ]


def test_all_makes_the_newest_hundred_and_records_the_rest(stage):
    series = stage.schedule(catch_up="all", rule="FREQ=HOURLY")
    stage.plan(NOON + 150 * HOUR)
    made = stage.live(series)
    assert len(made) == 1 + planning.MOST_CAUGHT_UP + 1
    assert stage.expires_at(series, made[0][0]) is None
    left_out = stage.skips(series)
    assert len(left_out) == 149 - planning.MOST_CAUGHT_UP
    assert {reason for _, reason, _, _ in left_out} == {"cap"}
    assert min(due for _, due in made[1:]) == NOON + 150 * HOUR - 99 * HOUR


@pytest.mark.parametrize("catch_up", ["latest", "all"])
def test_what_is_later_than_its_series_allows_is_not_made(stage, catch_up):
    series = stage.schedule(catch_up=catch_up, max_lateness=5400)
    assert stage.expires_at(series, FIRST) == at(2, 8, 30)
    stage.plan(at(4, 8, 30))
    assert [turn for turn, _ in stage.live(series)] == [FIRST, "20300505T090000"]
    assert (THIRD, "too_late", 90 * MINUTE, 1) in stage.skips(series)


def test_a_long_outage_is_worked_off_in_steps_and_recorded_in_bounded_rows(stage, monkeypatch):
    monkeypatch.setattr(planning, "MOST_LOOKED_AT", 500)
    monkeypatch.setattr(planning, "MOST_SKIPS", 50)
    series = stage.schedule(rule="FREQ=MINUTELY;INTERVAL=10", now=NOON)
    now = NOON + 1000 * 10 * MINUTE
    steps = 0
    while stage.plan(now):
        steps += 1
    assert steps == 3
    left_out = stage.skips(series)
    # One was made before the outage; the newest is made, and the next.
    assert sum(count for *_, count in left_out) == 1000 - 2
    assert len(left_out) <= 3 * 51
    assert len(stage.live(series)) == 3
    assert stage.live(series)[1][1] == now


def test_a_skip_is_recorded_once_however_often_it_is_found(stage, world):
    series = stage.schedule()
    stage.plan(at(5, 8))
    before = stage.skips(series)
    world.sql("UPDATE reminders.series SET planned_until = %s, plan_at = %s", at(2, 7), at(2, 7))
    stage.plan(at(5, 9))
    assert stage.skips(series) == before
    assert len(stage.live(series)) == 3


def test_the_word_of_a_kind_goes_before_that_of_its_tenant_and_an_expiry_before_both(world):
    due = world.now + timedelta(hours=1)
    set_lateness(world.database, "tenant-a", "", 7200.0)
    set_lateness(world.database, "tenant-a", "note", 600.0)
    by_kind = world.schedule(due_at=due)
    by_tenant = world.schedule(due_at=due, kind="other")
    by_itself = world.schedule(due_at=due, expires_at=due + timedelta(days=1))
    by_nobody = world.schedule(due_at=due, tenant_id="tenant-b")
    expiries = [world.column("reminders", "expires_at", each.id) for each in (by_kind, by_tenant, by_itself, by_nobody)]
    assert expiries == [due + timedelta(minutes=10), due + timedelta(hours=2), due + timedelta(days=1), None]
    assert world.column("due", "give_up_at", by_kind.id) == due + timedelta(minutes=10)
    set_lateness(world.database, "tenant-a", "note", None)
    assert world.column("reminders", "expires_at", world.schedule(due_at=due).id) == due + timedelta(hours=2)


def test_the_same_request_stays_the_same_when_the_word_on_lateness_changes(world):
    import reminders

    wanted = world.wanted(due_at=world.now + timedelta(hours=1))
    first = world.committed(reminders.schedule, **wanted)
    set_lateness(world.database, "tenant-a", "", 600.0)
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.created) == (first.id, False)
    assert world.column("reminders", "expires_at", first.id) is None


def test_what_is_later_than_its_tenant_allows_ends_expired(world):
    set_lateness(world.database, "tenant-a", "", 600.0)
    made = world.schedule()
    world.scanning(now=world.lapse(601)).once()
    assert world.status(made.id)[0] == "expired"


def test_series_go_by_the_word_of_their_kind_where_they_have_none(stage, world):
    set_lateness(world.database, "tenant-a", "note", 600.0)
    series = stage.schedule()
    own = stage.schedule(reference="own", max_lateness=1200)
    assert stage.expires_at(series, FIRST) == at(2, 7, 10)
    assert stage.expires_at(own, FIRST) == at(2, 7, 20)

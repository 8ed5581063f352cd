"""Clocks that jump ahead: what they put into the past was not decided on before, and is missed like anything else."""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.series_stage import HOUR, MINUTE, at
from reminders.calendar import recurrence
from reminders.ledger import replan_all, series_changing

TWICE = "FREQ=DAILY;BYHOUR=9,18"
KIRITIMATI = "Pacific/Kiritimati"
USER = {"tenant_id": "tenant-a", "user_id": "user-1"}
CHANGE = at(2, 6)
"""In Berlin eight in the morning of 2 May, in Kiritimati eight in the evening: 9:00 and 18:00 of that day have passed there."""
MORNING, EVENING, NEXT = "20300502T090000", "20300502T180000", "20300503T090000"


def by_an_edit(stage, series):
    stage.edit(series, CHANGE, zone=KIRITIMATI)


def by_its_user(stage, series):
    stage.world.committed(reminders.set_recipient, **USER, zone=KIRITIMATI)
    stage.world.sql("UPDATE reminders.series SET plan_at = %s", CHANGE)
    stage.plan(CHANGE)


def by_a_replan(stage, series):
    stage.world.committed(reminders.set_recipient, **USER, zone=KIRITIMATI)
    list(replan_all.replan_all(stage.world.database, tenant=None, series=series.id, dry_run=False, now=CHANGE))


WAYS = pytest.mark.parametrize("change", [by_an_edit, by_its_user, by_a_replan])


@WAYS
def test_all_that_it_jumped_over_is_made_where_everything_is_caught_up_with(stage, change):
    series = stage.schedule(rule=TWICE, catch_up="all", follows_user=True, now=at(1, 16, 30))
    change(stage, series)
    assert stage.live(series) == [(MORNING, at(1, 19)), (EVENING, at(2, 4)), (NEXT, at(2, 19))]
    assert stage.skips(series) == []


@WAYS
def test_only_the_newest_of_it_is_made_where_the_latest_counts(stage, change):
    series = stage.schedule(rule=TWICE, follows_user=True, now=at(1, 16, 30))
    change(stage, series)
    assert stage.live(series) == [(EVENING, at(2, 4)), (NEXT, at(2, 19))]
    assert stage.skips(series) == [(MORNING, "superseded", CHANGE - at(1, 19), 1)]


@WAYS
def test_none_of_it_is_made_where_what_was_missed_is_skipped(stage, change):
    series = stage.schedule(rule=TWICE, catch_up="skip", follows_user=True, now=at(1, 16, 30))
    change(stage, series)
    assert stage.live(series) == [(NEXT, at(2, 19))]
    assert [(turn, lateness) for turn, _, lateness, _ in stage.skips(series)] == [
        (MORNING, CHANGE - at(1, 19)),
        (EVENING, CHANGE - at(2, 4)),
    ]


def test_what_came_due_before_the_jump_is_not_made_again(stage):
    series = stage.schedule(rule=TWICE, catch_up="all", now=at(1, 16, 30))
    stage.plan(at(2, 7))
    stage.edit(series, at(2, 8), zone=KIRITIMATI)
    # It keeps the instant at which it came due.
    assert stage.live(series) == [(EVENING, at(2, 4)), (MORNING, at(2, 7)), (NEXT, at(2, 19))]


def test_turns_that_only_a_new_rule_gives_before_the_jump_are_none(stage):
    series = stage.schedule(catch_up="all", now=at(1, 16, 30))
    stage.edit(series, CHANGE, zone=KIRITIMATI, rule="FREQ=DAILY;BYHOUR=9,17")
    assert stage.live(series) == [(MORNING, at(1, 19)), (NEXT, at(2, 19))]
    assert stage.skips(series) == []


def test_a_jump_in_a_pause_is_on_record_with_the_rest_of_it(stage):
    series = stage.schedule(rule=TWICE, catch_up="all", now=at(1, 16, 30))
    stage.committed(series_changing.pause, series.id, now=at(1, 17))
    stage.edit(series, CHANGE, zone=KIRITIMATI)
    stage.committed(series_changing.resume, series.id, now=CHANGE)
    assert stage.live(series) == [(NEXT, at(2, 19))]
    assert [(turn, reason) for turn, reason, _, _ in stage.skips(series)] == [(MORNING, "paused"), (EVENING, "paused")]


def test_the_clocks_of_its_own_zone_jump_by_a_new_release_of_the_zones_data(stage, monkeypatch):
    """Berlin's clocks turn out to be those of Kiritimati: the turn that is planned ahead says what was decided."""
    series = stage.schedule(rule=TWICE, catch_up="all", now=at(1, 16, 30))
    to_instant = recurrence.to_instant
    monkeypatch.setattr(
        recurrence, "to_instant", lambda wall, zone: to_instant(wall, KIRITIMATI if zone == "Europe/Berlin" else zone)
    )
    list(replan_all.replan_all(stage.world.database, tenant=None, series=series.id, dry_run=False, now=CHANGE))
    assert stage.live(series) == [(MORNING, at(1, 19)), (EVENING, at(2, 4)), (NEXT, at(2, 19))]


HALVES = "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,30"


@pytest.mark.parametrize(("catch_up", "kept"), [("all", ["0930", "1000"]), ("skip", [])])
def test_the_planner_looks_before_anybody_replans_by_a_new_release_of_the_zones_data(
    stage, monkeypatch, catch_up, kept
):
    """Berlin's clocks turn out to be an hour ahead: nine o'clock is sent when it was planned, and half past had passed by then."""
    series = stage.schedule(rule=HALVES, catch_up=catch_up, now=at(2, 6, 45))
    assert stage.live(series) == [(MORNING, at(2, 7))]
    to_instant = recurrence.to_instant
    monkeypatch.setattr(recurrence, "to_instant", lambda wall, zone: to_instant(wall, zone) - HOUR)
    stage.plan(at(2, 7, 10))
    names = [turn[9:13] for turn, _ in stage.live(series)]
    assert sorted(names) == ["0900", *kept, "1030"]
    assert {turn[9:13] for turn, *_ in stage.skips(series)} == {"0930", "1000"} - set(kept)
    stage.plan(at(2, 7, 40))
    assert stage.live(series)[-1][0] == "20300502T110000"


def test_clocks_that_turn_out_to_be_behind_fire_no_turn_twice(stage, monkeypatch):
    series = stage.schedule(rule=HALVES, catch_up="all", now=at(2, 6, 15))
    stage.plan(at(2, 6, 30))
    to_instant = recurrence.to_instant
    monkeypatch.setattr(recurrence, "to_instant", lambda wall, zone: to_instant(wall, zone) + HOUR)
    for minutes in range(10, 130, 10):
        stage.plan(at(2, 7) + minutes * MINUTE)
    assert [(turn[9:13], due) for turn, due, _ in stage.rows(series)] == [
        ("0830", at(2, 6, 30)),
        ("0900", at(2, 7)),
        ("0930", at(2, 8, 30)),
        ("1000", at(2, 9)),
        ("1030", at(2, 9, 30)),
    ]

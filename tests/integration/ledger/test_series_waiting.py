"""Calls on a series that wait for an application's lock while turns come due: none is lost, and none is doubled.

The clock is Postgres's, turned on by the test while the call waits; no call is told the time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile

import pytest

import reminders
from integration.ledger.series_clock import turned
from integration.ledger.series_stage import NOON, at, provider
from reminders.ledger import planning, replan_all, series_changing, series_turns

LOCKED = "SELECT 1 FROM reminders.reminders WHERE series_id = %s FOR UPDATE"
SERIES_LOCKED = "SELECT 1 FROM reminders.series WHERE id = %s FOR UPDATE"
NAMES = [f"203005{day:02}T090000" for day in range(2, 7)]
"""The turns from tomorrow to the one after that which is next when the clock stands at the fifth at noon."""
LATER = at(5, 12)


def wall(day: int) -> datetime:
    return datetime(2030, 5, day, 9)


@pytest.fixture
def clock(world):
    with turned(world) as found:
        yield found


@pytest.fixture
def series(clock):
    return clock.schedule_now(catch_up="all")


def moved_and_paused(clock, series):
    clock.call(series_turns.move, series.id, wall(2), due_at=at(20, 7))
    clock.call(series_changing.pause, series.id)


def moved_and_skipped(clock, series):
    clock.call(series_turns.move, series.id, wall(2), due_at=at(20, 7))
    clock.call(series_turns.skip, series.id, wall(2))


def skipped(clock, series):
    clock.call(series_turns.skip, series.id, wall(2))


def moved(clock, series):
    clock.call(series_turns.move, series.id, wall(2), due_at=at(20, 7))


def nothing(clock, series): ...


CALLS = {
    "resume": (moved_and_paused, LOCKED, (series_changing.resume,), {}),
    "restore a moved one": (moved_and_skipped, LOCKED, (series_turns.restore, wall(2)), {}),
    "skip": (nothing, LOCKED, (series_turns.skip, wall(2)), {}),
    "skip a moved one": (moved, LOCKED, (series_turns.skip, wall(2)), {}),
    "pause": (nothing, LOCKED, (series_changing.pause,), {}),
    "move": (nothing, LOCKED, (series_turns.move, wall(2)), {"due_at": at(20, 7)}),
    "edit": (nothing, LOCKED, (series_changing.edit, {"destination": "elsewhere"}, provider), {}),
    "resume, behind another": (moved_and_paused, SERIES_LOCKED, (series_changing.resume,), {}),
    "restore, behind another": (skipped, SERIES_LOCKED, (series_turns.restore, wall(2)), {}),
    "skip, behind another": (nothing, SERIES_LOCKED, (series_turns.skip, wall(2)), {}),
    "pause, behind another": (nothing, SERIES_LOCKED, (series_changing.pause,), {}),
    "edit, behind another": (
        nothing,
        SERIES_LOCKED,
        (series_changing.edit, {"destination": "elsewhere"}, provider),
        {},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_comes_due_while_a_call_waits_is_a_reminder_or_on_record(clock, series, name):
    before, statement, (move, *arguments), named = CALLS[name]
    before(clock, series)
    with clock.held(statement, str(series.id)):
        answer = clock.waits(LATER, move, series.id, *arguments, **named)
    answer.result(timeout=60)
    if clock.get(series).status == "paused":
        clock.call(series_changing.resume, series.id)
    clock.plan_all()
    assert clock.accounted(series) == NAMES
    assert clock.get(series).plan_at == at(6, 7)


@pytest.mark.parametrize("seconds", [-1, 0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_a_turn_comes_due_at_the_very_instant(clock, series, name, seconds):
    """The call begins a second before nine, and the clock strikes while it waits."""
    before, statement, (move, *arguments), named = CALLS[name]
    before(clock, series)
    clock.turn(at(2, 7) - timedelta(seconds=1))
    with clock.held(statement, str(series.id)):
        answer = clock.waits(at(2, 7) + timedelta(seconds=seconds), move, series.id, *arguments, **named)
    answer.result(timeout=60)
    if clock.get(series).status == "paused":
        clock.call(series_changing.resume, series.id)
    clock.turn(LATER)
    clock.plan_all()
    assert clock.accounted(series) == NAMES


HOURS = "FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24)))
STEPS = {
    "edit": [(series_changing.edit, {"destination": "elsewhere"}, provider)],
    "edit of the rule": [(series_changing.edit, {"rule": HOURS + ";BYMINUTE=0,30"}, provider)],
    "pause and resume": [(series_changing.pause,), (series_changing.resume,)],
    "skip": [(series_turns.skip, wall(2))],
    "skip and restore": [(series_turns.skip, wall(2)), (series_turns.restore, wall(2))],
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("reading", range(10))
@pytest.mark.parametrize("name", STEPS)
def test_no_turn_is_lost_between_two_readings_of_the_clock(clock, name, reading, behind):
    """Each reading is a minute later than the one before; nine o'clock strikes before this one of the last call."""
    series = clock.schedule_now(catch_up="all", rule=HOURS)
    clock.turn(at(2, 5, 20))
    *first, (move, *arguments) = STEPS[name]
    for call, *given in first:
        clock.call(call, series.id, *given)
    clock.turn(at(2, 6, 20))
    if not behind:
        clock.plan_all()
    clock.turn(at(2, 7) - timedelta(minutes=reading, seconds=-30))
    clock.hurry(timedelta(minutes=1))
    clock.call(move, series.id, *arguments)
    now = clock.stop()
    clock.plan_all()
    accounted = clock.accounted(series)
    due = {turn.recurrence_id for turn in takewhile(lambda turn: turn.at <= now, series.when().recurrence.since(NOON))}
    assert due - set(accounted) == set()
    assert len(accounted) == len(set(accounted))


def scanned(clock):
    return planning.plan_due(clock.database, 200, None)


def test_the_planner_waits_for_an_application_that_holds_what_it_is_to_move(clock, series, monkeypatch):
    """It gives up, comes back, and decides on all that came due meanwhile."""
    series = clock.schedule_now(catch_up="all", follows_user=True, user_id="traveller", reference="other")
    monkeypatch.setattr(planning, "LOCK_TIMEOUT_MS", 15_000)
    clock.call(set_zone, "traveller", "America/New_York")
    with clock.held(LOCKED, str(series.id)):
        answer = clock.world.start(scanned, clock)
        clock.world.waiting_for_a_lock()
        clock.turn(LATER)
    answer.result(timeout=60)
    clock.plan_all()
    # Nine o'clock of the first comes again where the clocks are behind.
    assert clock.accounted(series) == ["20300501T090000", *NAMES[:-1]]


def set_zone(connection, schema, user, zone):
    reminders.set_recipient(connection, tenant_id="tenant-a", user_id=user, zone=zone)


def test_a_replan_that_waits_for_the_series_goes_by_the_clock_after_it(clock, series):
    """What a resume has put on record meanwhile is not made after all."""
    clock.turn(at(2, 6))
    with clock.world.database.transaction() as connection:
        series_changing.pause(connection, "reminders", series.id, now=at(2, 6))
        series_changing.resume(connection, "reminders", series.id, now=at(2, 8))
        answer = clock.world.start(replanned, clock, series)
        clock.world.waiting_for_a_lock()
        clock.turn(at(2, 8))
    answer.result(timeout=60)
    assert [turn for turn, *_ in clock.skips(series)] == NAMES[:1]
    assert clock.live(series) == [(NAMES[1], at(3, 7))]


def replanned(clock, series):
    return list(replan_all.replan_all(clock.database, tenant=None, series=series.id, dry_run=False))


def test_a_series_that_is_scheduled_as_its_only_turn_comes_is_refused_or_made(clock):
    """Another that asks for the same is under way, and is given up a moment after the turn."""
    alone = {"rule": None, "start": wall(2), "reference": "alone"}
    clock.turn(at(2, 7) - timedelta(seconds=1))
    other = clock.world.connect()
    series_changing.schedule(other, "reminders", clock.request(**alone), now=NOON)
    answer = clock.waits(at(2, 8), series_changing.schedule, clock.request(**alone))
    other.rollback()
    made, created = answer.result(timeout=60)
    clock.plan_all()
    assert created
    assert clock.live(made) == [(NAMES[0], at(2, 7))]
    assert clock.get(made).status == "ended"


MOVES = {
    "edit": (series_changing.edit, {"destination": "elsewhere"}, provider),
    "edit that does not give it any more": (series_changing.edit, {"rule": "FREQ=WEEKLY;BYDAY=MO"}, provider),
    "edit of the zone": (series_changing.edit, {"zone": "America/New_York"}, provider),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_a_person_moves_while_an_edit_waits_for_it_keeps_its_time(clock, series, name):
    application = clock.world.connect()
    reminders.reschedule(application, clock.id_of(series, NAMES[0]), due_at=at(9, 7), zone=None)
    move, *arguments = MOVES[name]
    answer = clock.waits(NOON, move, series.id, *arguments)
    application.commit()
    edited = answer.result(timeout=60)
    assert (NAMES[0], at(9, 7)) in clock.live(series)
    query = "SELECT destination FROM reminders.reminders WHERE recurrence_id = %s"
    assert clock.world.sql(query, NAMES[0]) == [(edited.destination,)]


def test_what_a_person_moves_while_a_pause_waits_for_it_comes_back_at_that_time(clock, series):
    application = clock.world.connect()
    reminders.reschedule(application, clock.id_of(series, NAMES[0]), due_at=at(9, 7), zone=None)
    answer = clock.waits(NOON, series_changing.pause, series.id)
    application.commit()
    answer.result(timeout=60)
    assert clock.live(series) == []
    clock.turn(LATER)
    clock.call(series_changing.resume, series.id)
    assert (NAMES[0], at(9, 7)) in clock.live(series)


def test_a_fault_that_an_edit_cures_before_it_is_noted_is_none(clock, series):
    """The planner had met it; by the time it says so the series' next turn lies ahead."""
    planning._put_off(clock.database, series.id, 600.0, None, "ValueError: as it was")
    found = clock.get(series)
    assert (found.fault, found.plan_at) == (None, at(2, 7))

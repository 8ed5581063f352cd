"""Any story of a series: each of its turns is a reminder or a recorded skip, none is both, and none is missing."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import reminders
from integration.ledger.series_stage import DAY, NOON, SeriesStage
from reminders.calendar.recurrence import Occurrence, Recurrence
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.ledger import audit_turns, replan_all, series_changing, series_turns

NAMES = itertools.count()
RULES = (
    "FREQ=DAILY",
    "FREQ=DAILY;BYHOUR=9,18",
    "FREQ=DAILY;BYHOUR=2,14;BYMINUTE=30",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=DAILY;BYHOUR=9,21;UNTIL=20300520",
    "FREQ=DAILY;COUNT=6",
    "FREQ=HOURLY;INTERVAL=7",
)
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Honolulu",
    "Pacific/Kiritimati",
    "Asia/Kolkata",
)
WAIT = st.sampled_from([0.1, 1, 5, 12, 23, 30, 75, 260]).map(lambda hours: ("wait", timedelta(hours=hours)))
PLAN = st.just(("plan", None))
EDIT = st.sampled_from(RULES).map(lambda rule: ("edit", {"rule": rule}))
START = st.sampled_from([datetime(2030, 5, 1, 9), datetime(2030, 5, 1, 10)]).map(
    lambda start: ("edit", {"start": start})
)
ZONE = st.sampled_from(ZONES).map(lambda zone: ("edit", {"zone": zone}))
BOTH = st.tuples(st.sampled_from(RULES), st.sampled_from(ZONES)).map(
    lambda both: ("edit", {"rule": both[0], "zone": both[1]})
)
USERS = st.sampled_from(ZONES).map(lambda zone: ("follow", zone))
TURN = st.integers(-6, 4)
ONE = st.tuples(st.sampled_from(["skip", "restore"]), TURN)
MOVE = st.tuples(st.just("move"), st.tuples(TURN, st.sampled_from([-30, -1, 2, 40, 200])))
BACK = st.tuples(st.just("back"), TURN)
OTHER = st.sampled_from([("pause", None), ("resume", None), ("deliver", None), ("replan", None)])
FAULT = st.sampled_from([1, 30, 75]).map(lambda hours: ("fault", timedelta(hours=hours)))
STORY = st.lists(
    st.one_of(
        WAIT, WAIT, WAIT, WAIT, PLAN, PLAN, EDIT, START, ZONE, ZONE, BOTH, USERS, ONE, MOVE, BACK, OTHER, OTHER, FAULT
    ),
    min_size=5,
    max_size=16,
)
HERE = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
REFUSED = (Refused, NotFound, InvalidInput)


class Account:
    """One series, and which turns must have become something, by its own account of rules, zones and times.

    A turn is its name. It is due once its time has come by the rule and the zone as they were then.
    """

    def __init__(self, stage: SeriesStage, rule: str, catch_up: str, *, follows: bool) -> None:
        self.stage, self.now = stage, NOON
        self.user = f"user-{next(NAMES)}"
        self.series = stage.schedule(
            rule=rule, catch_up=catch_up, follows_user=follows, user_id=self.user, reference=f"whole-{self.user}"
        )
        self.accounted = NOON
        self.due: set[str] = set()
        self.delivered: dict[str, tuple[object, ...]] = {}

    def recurrence(self) -> Recurrence:
        return self.stage.get(self.series).when().recurrence

    def account(self) -> None:
        """What has come due since the last word did so by the rule as it stands."""
        for turn in self.recurrence().since(self.accounted):
            if turn.at > self.now:
                break
            self.due.add(turn.recurrence_id)
        self.accounted = self.now

    def jumped(self, before: Recurrence) -> None:
        """What another zone has put into the past, though its time had not come by the zone before, has come due."""
        after = self.recurrence()
        later = {turn.recurrence_id for turn in between(before, self.now, self.now + 2 * DAY)}
        passed = {turn.recurrence_id for turn in between(after, self.now - 2 * DAY, self.now)}
        self.due |= later & passed
        # And what it has put into the future has yet to come.
        self.due -= {turn.recurrence_id for turn in between(after, self.now, self.now + 2 * DAY)}

    def tell(self, what: str, said: object) -> None:
        if what == "wait":
            self.now += said
            self.account()
            return
        before = self.recurrence()
        with contextlib.suppress(*REFUSED):
            getattr(self, what)(said)
        self.jumped(before)
        self.untouched()

    def plan(self, _: object = None) -> None:
        for _round in range(20):
            if not self.stage.plan(self.now):
                return
        raise AssertionError("the planner is never done")

    def edit(self, changes: dict[str, object]) -> None:
        self.stage.edit(self.series, self.now, **changes)

    def follow(self, zone: str) -> None:
        standing = self.stage.get(self.series)
        if standing.replan or "HOURLY" in str(standing.rule):
            # Of two changes between two looks the planner sees one, and turns of an hourly rule are other ones elsewhere.
            self.sql(
                "UPDATE reminders.series SET fault = NULL, plan_at = planned_until WHERE fault IS NOT NULL AND id = %s"
            )
            self.plan()
            if standing.status == "paused":
                # What an hourly one has let pass is on record as soon as it is looked at: by any call, here one that says nothing.
                self.edit({})
        user = {"tenant_id": "tenant-a", "user_id": self.user}
        with self.stage.world.database.transaction() as connection:
            reminders.set_recipient(connection, **user, zone=zone)
        # It asks for a look at once, by a clock that is not the story's.
        self.sql(
            "UPDATE reminders.series SET plan_at = %s WHERE replan AND plan_at IS NOT NULL AND id = %s",
            self.now,
        )

    def turn(self, number: int) -> Occurrence:
        """Of those around now: 0 is the next one, -1 the last one."""
        near = list(between(self.recurrence(), self.now - 9 * DAY, self.now + 9 * DAY))
        at = sum(turn.at <= self.now for turn in near) + number
        if not 0 <= at < len(near):
            raise InvalidInput("turn", "there is none")
        return near[at]

    def skip(self, number: int) -> None:
        self.change(series_turns.skip, self.turn(number).at)

    def restore(self, number: int) -> None:
        self.change(series_turns.restore, self.turn(number).at)

    def move(self, said: tuple[int, float]) -> None:
        number, hours = said
        self.change(series_turns.move, self.turn(number).at, due_at=self.now + timedelta(hours=hours))

    def back(self, number: int) -> None:
        turn = self.turn(number)
        self.change(series_turns.move, turn.at, due_at=turn.at)

    def pause(self, _: object) -> None:
        self.change(series_changing.pause)

    def resume(self, _: object) -> None:
        self.change(series_changing.resume)

    def replan(self, _: object) -> None:
        list(
            replan_all.replan_all(
                self.stage.world.database, tenant=None, series=self.series.id, dry_run=False, now=self.now
            )
        )

    def fault(self, waited: timedelta) -> None:
        """After a while the planner could not plan it, and looks again in two days."""
        self.tell("wait", waited)
        later = self.now + 2 * DAY
        self.sql(
            "UPDATE reminders.series SET fault = 'x', planned_until = LEAST(planned_until, plan_at), plan_at = %s WHERE plan_at <= %s AND id = %s",
            later,
            self.now,
        )

    def deliver(self, _: object) -> None:
        self.sql(
            """WITH sent AS (DELETE FROM reminders.due WHERE wake_at <= %s
                             AND id IN (SELECT id FROM reminders.reminders WHERE series_id = %s) RETURNING id)
               UPDATE reminders.reminders SET status = 'delivered', finished_at = now() WHERE id IN (SELECT id FROM sent)""",
            self.now,
        )
        for turn, *rest in self.rows():
            if rest[0] == "delivered":
                self.delivered.setdefault(turn, tuple(rest))

    def untouched(self) -> None:
        rows = {turn: tuple(rest) for turn, *rest in self.rows()}
        assert {turn: rows[turn] for turn in self.delivered} == self.delivered

    def rows(self):
        return self.sql(
            "SELECT recurrence_id, status, version, due_at, withdrawn_at IS NOT NULL FROM reminders.reminders WHERE series_id = %s"
        )

    def sql(self, statement: str, *given_: object):
        return self.stage.world.sql(statement, *given_, str(self.series.id))

    def change(self, call, *arguments: object, **named: object) -> None:
        self.stage.committed(call, self.series.id, *arguments, now=self.now, **named)


def between(recurrence: Recurrence, after: datetime, until: datetime):
    return itertools.takewhile(lambda turn: turn.at <= until, recurrence.since(after))


POLICIES = pytest.mark.parametrize("catch_up", ["latest", "skip", "all"])
TOLD = given(rule=st.sampled_from(RULES), follows=st.booleans(), story=STORY)


HOURLY_IN_A_PAUSE = [
    ("wait", timedelta(hours=0.1)),
    ("edit", {"rule": "FREQ=HOURLY;INTERVAL=7"}),
    ("pause", None),
    ("wait", timedelta(hours=5)),
    ("follow", "America/New_York"),
]
MOVED_AFTER_ALL = [("skip", 0), ("move", (0, -30))]
ENDED_AND_AGAIN = [
    ("wait", timedelta(hours=30)),
    ("fault", timedelta(hours=75)),
    ("edit", {"rule": "FREQ=DAILY;COUNT=6", "zone": "Pacific/Kiritimati"}),
    ("follow", "Europe/Berlin"),
]


@POLICIES
@settings(HERE, max_examples=25, derandomize=True)
@example(rule="FREQ=DAILY", follows=True, story=HOURLY_IN_A_PAUSE)
@example(rule="FREQ=DAILY", follows=False, story=MOVED_AFTER_ALL)
@example(rule="FREQ=DAILY", follows=True, story=ENDED_AND_AGAIN)
@TOLD
def test_each_turn_is_a_reminder_or_a_record_whatever_happens(stage, catch_up, rule, follows, story):
    tell_and_count(stage, catch_up, rule, follows, story)


@pytest.mark.long
@pytest.mark.timeout(1800)
@POLICIES
@settings(HERE, max_examples=400)
@TOLD
def test_each_turn_is_a_reminder_or_a_record_in_many_stories(stage, catch_up, rule, follows, story):
    tell_and_count(stage, catch_up, rule, follows, story)


def lost(stage, now):
    with stage.world.database.transaction() as connection:
        return list(audit_turns.lost_turns(connection, "reminders", since=NOON, now=now))


def tell_and_count(stage, catch_up, rule, follows, story):
    told = Account(stage, rule, catch_up, follows=follows)
    for what, said in story:
        told.tell(what, said)
    told.sql("UPDATE reminders.series SET plan_at = %s WHERE fault IS NOT NULL AND id = %s", told.now)
    told.tell("plan", None)
    if stage.get(told.series).status == "paused":
        told.tell("resume", None)
    found = dataclasses.replace(stage.get(told.series), now=told.now)
    records = [turn for turn, _, _, _ in stage.skips(told.series)]
    made = {turn for turn, status, _, _, withdrawn in told.rows() if status != "cancelled" and not withdrawn}
    assert made.isdisjoint(records)
    wanted = told.due - set(found.skipped)
    assert wanted - made - set(records) == set()
    assert lost(stage, told.now) == []
    following = next(found.when().since(told.now), None)
    assert (found.status, found.plan_at) == (("active", following.at) if following else ("ended", None))
    if following is not None:
        assert following.recurrence_id in made
    assert found.planned_zone == found.effective_zone or following is None

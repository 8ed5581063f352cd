"""Random rules, outages and changes: every turn that came due is a reminder or a recorded skip, and none is both."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.ledger.series_stage import NOON, START, SeriesStage
from reminders.ledger import series_changing, series_turns
from reminders.pipeline.plan import When

NAMES = itertools.count()
RULES = (
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=2",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=WEEKLY;BYDAY=TU;COUNT=4",
    "FREQ=MONTHLY;BYMONTHDAY=-1,15",
    "FREQ=DAILY;BYHOUR=9,21;UNTIL=20300601",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=YEARLY;BYMONTH=5",
)
WAIT = st.sampled_from([0.5, 3, 11, 24, 26, 50, 100, 400]).map(lambda hours: ("wait", timedelta(hours=hours)))
PLAN = st.just(("plan", None))
EDIT = st.sampled_from(RULES).map(lambda rule: ("edit", rule))
SKIP = st.integers(0, 3).map(lambda number: ("skip", number))
OTHER = st.sampled_from([("pause", None), ("resume", None), ("restore", None)])
STORY = st.lists(st.one_of(WAIT, PLAN, PLAN, EDIT, SKIP, OTHER), max_size=14)
HERE = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Told:
    """One series, with what should have become of it by its own account."""

    def __init__(self, stage: SeriesStage, rule: str, catch_up: str) -> None:
        self.stage, self.now = stage, NOON
        self.series = stage.schedule(rule=rule, catch_up=catch_up, reference=f"told-{next(NAMES)}")
        self.decided_until = NOON
        self.due: dict[str, object] = {}

    def when(self) -> When:
        return self.stage.get(self.series).when()

    def account(self) -> None:
        """Everything that has come due so far did so by the rule as it stands."""
        for turn in self.when().since(self.decided_until):
            if turn.at > self.now:
                break
            self.due[turn.recurrence_id] = turn.at
        self.decided_until = self.now

    def tell(self, what: str, given: object) -> None:
        if what == "wait":
            self.now += given
            return
        if what == "plan":
            for _ in range(3):
                self.stage.plan(self.now)
            return
        self.account()
        standing = self.stage.get(self.series)
        if what == "edit":
            self.stage.edit(self.series, self.now, rule=given)
        elif what == "skip" and (coming := series_turns.next_turns(self.at_now(), given + 1)):
            self.change(series_turns.skip, coming[-1].at)
        elif what == "restore":
            near = itertools.islice(standing.when().recurrence.since(self.now), 8)
            for each in [each for each in near if each.recurrence_id in standing.skipped][:1]:
                self.change(series_turns.restore, each.at)
        elif what in {"pause", "resume"} and self.decided().status in {"active", "paused"}:
            self.change(getattr(series_changing, what))

    def at_now(self):
        return dataclasses.replace(self.stage.get(self.series), now=self.now)

    def decided(self):
        for _ in range(3):
            self.stage.plan(self.now)
        return self.stage.get(self.series)

    def change(self, call, *arguments):
        return self.stage.committed(call, self.series.id, *arguments, now=self.now)


POLICIES = pytest.mark.parametrize("catch_up", ["latest", "skip", "all"])
TOLD = given(rule=st.sampled_from(RULES), story=STORY)


@POLICIES
@settings(HERE, max_examples=25, derandomize=True)
@TOLD
def test_every_turn_is_made_or_its_skip_recorded(stage, catch_up, rule, story):
    tell_and_compare(stage, catch_up, rule, story)


@pytest.mark.long
@pytest.mark.timeout(1200)
@POLICIES
@settings(HERE, max_examples=300)
@TOLD
def test_every_turn_is_made_or_its_skip_recorded_in_many_stories(stage, catch_up, rule, story):
    tell_and_compare(stage, catch_up, rule, story)


def tell_and_compare(stage, catch_up, rule, story):
    told = Told(stage, rule, catch_up)
    for what, given_ in story:
        told.tell(what, given_)
    told.account()
    found = told.decided()
    if found.status == "paused":
        told.change(series_changing.resume)
        found = stage.get(told.series)
    made = {turn for turn, due, status in stage.rows(told.series) if status == "pending" and due <= told.now}
    skipped = {turn for turn, _, _, _ in stage.skips(told.series)}
    assert made | skipped == set(told.due)
    assert made & skipped == set()
    ahead = [due for _, due, status in stage.rows(told.series) if status == "pending" and due > told.now]
    following = next(found.when().since(told.now), None)
    assert ahead == ([following.at] if following else [])
    assert (found.status == "active") == (following is not None)
    assert found.plan_at == (following and following.at)


def test_the_same_story_of_an_outage_told_by_the_three_policies(stage):
    for catch_up, made, left_out in (("latest", 2, 3), ("skip", 1, 4), ("all", 5, 0)):
        told = Told(stage, "FREQ=DAILY", catch_up)
        assert told.series.start == START
        told.tell("wait", timedelta(days=5))
        told.decided()
        rows = [row for row in stage.rows(told.series) if row[1] <= told.now]
        assert (len(rows), len(stage.skips(told.series))) == (made, left_out), catch_up

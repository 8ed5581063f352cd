"""The chaos run's judgement: each breach is found in the smallest run that shows it, and what is allowed is not one."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from benchmarks.chaos.calls import EACH, ONCE, Call
from benchmarks.chaos.evidence import Attempt, Ledger
from benchmarks.chaos.findings import Findings, find
from benchmarks.chaos.strikes import Freeze
from benchmarks.chaos.traffic import Book, Known, Promise

CLAIM = 30.0
PID = 7
UNIX = 1_000_000.0
"""Unix time at zero of the monotonic clock in these stories."""


def call(attempt: int = 1, *, place: str = ONCE, at: float = 10.0, seconds: float = 1.0, **changed: object) -> Call:
    made = Call(
        key="key-1", reminder="id", reference=f"{place}-1", place=place, attempt=attempt, body="same", start=at,
        end=at + seconds, manner="well", status=200, effect=attempt == 1 or place == EACH,
    )  # fmt: skip
    return replace(made, **changed)


def attempt(outcome: str = "delivered", *, at: float = 9.9, pid: int = PID) -> Attempt:
    return Attempt(worker_pid=pid, outcome=outcome, error_class="", claimed_at=UNIX + at)


def judge(
    calls: list[Call],
    *,
    attempts: dict[int, Attempt] | None = None,
    status: str = "delivered",
    promises: list[Promise] | None = None,
    freezes: list[Freeze] | None = None,
    never: set[str] | None = None,
) -> Findings:
    """One reminder, whose calls are `calls`. Without `attempts` each call is on record as delivered."""
    reference = calls[0].reference if calls else f"{ONCE}-1"
    recorded = {each.attempt: attempt(at=each.start - 0.1) for each in calls} if attempts is None else attempts
    book = Book(
        known={reference: Known(reference, UUID(int=1), reference.partition("-")[0], ["key-1"])},
        promises=promises or [],
        never=never or set(),
    )
    ledger = Ledger({reference: status}, {("key-1", number): each for number, each in recorded.items()}, {})
    return find(book, calls, ledger, freezes or [], CLAIM)


def breached(found: Findings) -> set[str]:
    return {name for name, evidence in found.breaches.items() if evidence}


def promise(answer: str, at: float) -> Promise:
    return Promise(f"{ONCE}-1", "key-1", answer, monotonic=at, unix=UNIX + at)


def test_one_call_and_one_effect_is_as_it_should_be():
    assert breached(judge([call()])) == set()


@pytest.mark.parametrize("status", ["pending", "published", "sending", "held"])
def test_what_has_not_ended_is_lost(status):
    assert breached(judge([call()], status=status)) == {"lost"}


def test_what_counts_as_delivered_and_had_no_effect_is_lost():
    assert breached(judge([])) == {"lost"}
    assert breached(judge([call(effect=False)])) == {"lost"}


def test_a_dead_or_cancelled_reminder_needs_no_effect():
    assert breached(judge([], status="dead")) == set()
    assert breached(judge([], status="cancelled")) == set()


def test_calls_of_one_key_at_the_same_time_overlap():
    assert breached(judge([call(1, seconds=5), call(2, at=12)])) == {"overlapping calls"}
    assert breached(judge([call(1, seconds=2), call(2, at=12)])) == set()


def test_a_short_call_within_a_long_one_does_not_hide_the_third():
    found = judge([call(1, seconds=9), call(2, at=11, seconds=1), call(3, at=13)])
    assert len(found.breaches["overlapping calls"]) == 2


def test_one_overlap_of_a_process_frozen_beyond_its_claim_is_counted_apart():
    attempts = {1: attempt("unknown", at=10), 2: attempt(at=41, pid=8)}
    freeze = Freeze(PID, "freeze", since=UNIX + 11, until=UNIX + 45)
    overlapping = [call(1, at=45.1), call(2, at=45)]
    overlapping.sort(key=lambda each: each.start)
    found = judge(overlapping, attempts=attempts, freezes=[freeze])
    assert (breached(found), found.overlaps_of_frozen) == (set(), 1)
    for other in (
        Freeze(8, "freeze", since=UNIX + 11, until=UNIX + 39),
        Freeze(PID, "freeze", since=UNIX + 11, until=UNIX + 39),
        Freeze(PID, "freeze", since=UNIX + 9, until=UNIX + 45),
    ):
        assert breached(judge(overlapping, attempts=attempts, freezes=[other])) == {"overlapping calls"}, other


def test_a_second_overlap_of_the_same_freeze_is_a_breach():
    attempts = {1: attempt("unknown", at=10), 2: attempt(at=41, pid=8), 3: attempt(at=42, pid=9)}
    freeze = Freeze(PID, "freeze", since=UNIX + 11, until=UNIX + 45)
    calls = [call(1, at=45, seconds=3), call(2, at=45.1), call(3, at=45.2)]
    found = judge(calls, attempts=attempts, freezes=[freeze])
    assert (len(found.breaches["overlapping calls"]), found.overlaps_of_frozen) == (1, 1)


def test_effects_under_two_keys_are_repeated():
    second = call(1, at=20, key="key-2")
    found = judge([call(), second], attempts={1: attempt()})
    assert "effects repeated" in breached(found)


def test_an_effect_that_the_receiver_itself_called_an_error_may_come_again_under_a_new_key():
    calls = [call(status=500), call(1, at=20, key="key-2")]
    assert "effects repeated" not in breached(judge(calls))


@pytest.mark.parametrize("status", [None, 200, 500])
def test_a_call_at_each_after_one_that_may_have_had_an_effect(status):
    calls = [call(1, place=EACH, status=status), call(2, place=EACH, at=20)]
    found = judge(calls, attempts={1: attempt("retry"), 2: attempt()})
    assert breached(found) == {"repeated after an unknown outcome"}


@pytest.mark.parametrize("outcome", ["retry", "blocked"])
def test_a_call_at_each_after_a_refusal_is_allowed_only_if_the_refusal_is_on_record(outcome):
    calls = [call(1, place=EACH, status=429, effect=False), call(2, place=EACH, at=20)]
    assert breached(judge(calls, attempts={1: attempt(outcome), 2: attempt()})) == set()
    lost = judge(calls, attempts={1: attempt("unknown"), 2: attempt()})
    assert breached(lost) == {"repeated after an unknown outcome"}


def test_a_call_at_once_after_an_unknown_outcome_is_allowed():
    calls = [call(1, status=None), call(2, at=20)]
    assert breached(judge(calls, attempts={1: attempt("unknown"), 2: attempt()})) == set()


@pytest.mark.parametrize(
    ("answer", "name"),
    [("cancelled", "cancelled but called"), ("superseded", "called after it was superseded")],
)
def test_a_call_that_begins_after_the_promise(answer, name):
    assert breached(judge([call(at=10)], promises=[promise(answer, at=9.99)])) == {name}
    assert breached(judge([call(at=10)], promises=[promise(answer, at=10.01)])) == set()


@pytest.mark.parametrize("answer", ["requested", "maybe_sent"])
def test_a_claim_that_is_taken_after_the_promise(answer):
    """The call of a claim that was open may still begin."""
    found = judge([call(at=10)], attempts={1: attempt(at=9.5)}, promises=[promise(answer, at=9)])
    assert breached(found) == {"claimed after requested or maybe_sent"}
    found = judge([call(at=10)], attempts={1: attempt(at=9.5)}, promises=[promise(answer, at=9.7)])
    assert breached(found) == set()


def test_a_call_about_what_was_rolled_back():
    assert breached(judge([call()], never={f"{ONCE}-1"})) == {"called though rolled back"}


def test_a_call_that_is_not_on_record():
    assert breached(judge([call()], attempts={})) == {"calls not on record"}


def test_bodies_of_one_key_that_differ():
    assert breached(judge([call(1), call(2, at=20, body="other")])) == {"bodies that differ"}

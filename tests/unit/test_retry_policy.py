"""What follows from an outcome: one pure function, all of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.domain.retry_policy import Bury, Deliver, Park, Wait, as_known, decide, next_delay
from reminders.settings import Settings

AGAIN, NO = Retry("busy", ""), Rejected("gone", "")
LOST, TIMED_OUT = Unknown("reset", ""), Unknown("timeout", "", timed_out=True)
PAUSE = Blocked("destination", timedelta(seconds=90), "http_429", "")
DELAYS = (5.0, 30.0, 300.0)


def decided(outcome, **changed):
    given = {
        "attempts_used": 1,
        "uncertain": False,
        "on_unknown": "repeat",
        "max_attempts": 8,
        "delays": DELAYS,
        "waited": 0.0,
        "max_wait": 1000.0,
        "jitter": 0.5,
    }
    return decide(outcome, **{**given, **changed})


@pytest.mark.parametrize(
    "state",
    [{}, {"uncertain": True}, {"on_unknown": "review", "uncertain": True}, {"attempts_used": 99}, {"waited": 1e9}],
)
def test_a_delivery_ends_it_whatever_was_before(state):
    assert decided(Delivered(), **state) == Deliver()


@pytest.mark.parametrize(
    ("outcome", "certain", "uncertain", "review"),
    [
        (AGAIN, Park(5.0, "deliver"), Park(5.0, "deliver"), Bury("unknown")),
        (NO, Bury("destination"), Bury("unknown"), Bury("unknown")),
        (LOST, Park(5.0, "deliver"), Park(5.0, "deliver"), Bury("unknown")),
        (TIMED_OUT, Park(5.0, "retry"), Park(5.0, "retry"), Bury("unknown")),
    ],
)
def test_the_table(outcome, certain, uncertain, review):
    assert decided(outcome) == certain
    assert decided(outcome, uncertain=True) == uncertain
    assert decided(outcome, uncertain=True, on_unknown="review") == review


@pytest.mark.parametrize("state", [{}, {"attempts_used": 99}, {"uncertain": True}])
def test_what_is_blocked_waits_for_the_hold_whatever_attempts_were_used(state):
    assert decided(PAUSE, **state) == Wait(90.0, 1000.0)


@pytest.mark.parametrize(("after", "seconds"), [(0, 1.0), (-5, 1.0), (0.2, 1.0), (900, 900.0), (1000, 1000.0)])
def test_a_hold_lasts_a_second_at_least(after, seconds):
    assert decided(Blocked("provider", timedelta(seconds=after), "", "")) == Wait(seconds, 1000.0)


def test_a_hold_lasts_a_day_at_most():
    assert decided(Blocked("provider", timedelta.max, "", ""), max_wait=1e6) == Wait(86400.0, 1e6)


def test_waiting_for_holds_is_bounded_too():
    assert decided(PAUSE, waited=910.0) == Wait(90.0, 90.0)
    assert decided(PAUSE, waited=910.1) == Bury("destination")
    assert decided(PAUSE, waited=910.1, uncertain=True) == Bury("unknown")


def test_a_conflict_is_no_refusal_while_an_earlier_attempt_is_unknown():
    conflict = Rejected("http_409", "conflict", 409, may_be_our_own=True)
    assert as_known(conflict, uncertain=True) == Retry("http_409", "conflict", 409)
    assert as_known(conflict, uncertain=False) is conflict
    assert as_known(NO, uncertain=True) is NO


@pytest.mark.parametrize(("outcome", "follows"), [(LOST, Park(5.0, "deliver")), (TIMED_OUT, Park(5.0, "retry"))])
def test_what_can_be_looked_up_waits_for_its_look_up(outcome, follows):
    assert decided(outcome, on_unknown="look_up") == follows
    assert decided(outcome, on_unknown="look_up", attempts_used=8) == Bury("unknown")


@pytest.mark.parametrize(("outcome", "follows"), [(AGAIN, Park(5.0, "deliver")), (NO, Bury("destination")), (LOST, Bury("unknown"))])  # fmt: skip
def test_where_the_destination_does_not_deduplicate_only_certainty_is_repeated(outcome, follows):
    assert decided(outcome, on_unknown="review") == follows


@pytest.mark.parametrize(("outcome", "letter"), [(AGAIN, "destination"), (LOST, "unknown"), (TIMED_OUT, "unknown")])
def test_the_last_attempt_of_a_budget_ends_it(outcome, letter):
    assert isinstance(decided(outcome, attempts_used=7), Park)
    assert decided(outcome, attempts_used=8) == Bury(letter)
    assert decided(outcome, attempts_used=9) == Bury(letter)


def test_one_attempt_allowed_means_no_retry():
    assert decided(AGAIN, max_attempts=1) == Bury("destination")


def test_the_uncertain_keep_that_word_when_their_budget_ends():
    assert decided(AGAIN, attempts_used=8, uncertain=True) == Bury("unknown")
    assert decided(AGAIN, waited=2000.0, uncertain=True) == Bury("unknown")


def test_all_waiting_together_is_bounded():
    assert decided(AGAIN, waited=995.0) == Park(5.0, "deliver")
    assert decided(AGAIN, waited=995.1) == Bury("destination")


@pytest.mark.parametrize(
    ("after", "seconds"), [(None, 5.0), (60, 60.0), (1, 5.0), (0, 5.0), (-3600, 5.0), (1000, 1000.0)]
)
def test_what_the_far_side_asks_for_can_only_lengthen_the_wait(after, seconds):
    outcome = Retry("busy", "", after=None if after is None else timedelta(seconds=after))
    assert decided(outcome) == Park(seconds, "deliver")


def test_a_wait_that_the_far_side_asks_for_is_bounded_too():
    assert decided(Retry("busy", "", after=timedelta(seconds=1001))) == Bury("destination")
    assert decided(Retry("busy", "", after=timedelta.max)) == Bury("destination")


@pytest.mark.parametrize(("used", "delay"), [(1, 5.0), (2, 30.0), (3, 300.0), (4, 300.0), (1000, 300.0)])
def test_the_delays_are_taken_in_turn_and_the_last_one_ever_after(used, delay):
    assert next_delay(used, DELAYS, 0.5) == delay
    assert next_delay(used, DELAYS, 0.0) == pytest.approx(delay * 0.9)
    assert next_delay(used, DELAYS, 1.0) == pytest.approx(delay * 1.1)


@given(
    outcome=st.sampled_from([AGAIN, NO, LOST, TIMED_OUT, PAUSE, Retry("busy", "", after=timedelta(days=1))]),
    state=st.fixed_dictionaries(
        {
            "attempts_used": st.integers(1, 20),
            "uncertain": st.booleans(),
            "on_unknown": st.sampled_from(["repeat", "look_up", "review"]),
            "waited": st.floats(0, 1e6),
            "jitter": st.floats(0, 1, exclude_max=True),
        }
    ),
)
def test_whatever_happens_it_ends_and_nothing_unknown_is_repeated_where_it_must_not(outcome, state):
    follows = decided(outcome, **state)
    unknown = state["uncertain"] or isinstance(outcome, Unknown)
    assert follows != Deliver()
    if isinstance(follows, Park | Wait):
        assert state["attempts_used"] < 8 or outcome is PAUSE
        assert state["waited"] + follows.seconds <= 1000.0
        assert not (unknown and state["on_unknown"] == "review")
        assert not isinstance(outcome, Rejected)
    else:
        assert follows.kind == ("unknown" if unknown else "destination")


def test_the_shipped_delays_are_spent_before_the_shipped_attempts_and_the_longest_wait():
    shipped = Settings()
    assert len(shipped.retry_delays) == shipped.max_attempts - 1
    assert sum(shipped.retry_delays) * 1.1 < shipped.max_wait


def test_a_delay_that_is_no_number_ends_it():
    assert isinstance(decided(Retry("timeout", ""), delays=[float("nan")]), Bury)

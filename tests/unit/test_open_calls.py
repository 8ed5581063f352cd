"""What a process knows of its open calls: how many are slow, and who may begin another while many hang (G9)."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest

from reminders.domain.slow_calls import MOST_SLOW, SLOW_AFTER, SLOW_PER_SLOT, slow_room
from reminders.pipeline import open_calls
from reminders.pipeline.open_calls import OpenCalls


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def calls(clock: Clock) -> OpenCalls:
    return OpenCalls(clock)


def call(calls: OpenCalls, destination: UUID, clock: Clock, seconds: float) -> None:
    place = calls.place(destination)
    assert place is not None
    with place:
        clock.now += seconds


def begin(calls: OpenCalls, ending: ExitStack, destination: UUID | None = None) -> bool:
    place = calls.place(destination or uuid4())
    if place is not None:
        ending.enter_context(place)
    return place is not None


def test_a_call_is_slow_from_its_second_on_until_it_ends(calls: OpenCalls, clock: Clock) -> None:
    with ExitStack() as first:
        begin(calls, first)
        clock.now += SLOW_AFTER / 2
        with ExitStack() as second:
            begin(calls, second)
            assert calls.slow() == 0
            clock.now += SLOW_AFTER / 2
            assert calls.slow() == 1
            clock.now += SLOW_AFTER / 2
            assert calls.slow() == 2
        assert calls.slow() == 1
    assert calls.slow() == 0


def test_a_call_that_raises_has_ended(calls: OpenCalls, clock: Clock) -> None:
    def failing() -> None:
        place = calls.place(uuid4())
        assert place is not None
        with place:
            clock.now += 10
            raise ValueError("out")

    with pytest.raises(ValueError, match="out"):
        failing()
    assert calls.slow() == 0


def test_without_a_limit_every_call_may_begin(calls: OpenCalls, clock: Clock) -> None:
    with ExitStack() as ending:
        assert all(begin(calls, ending) for _ in range(500))
        clock.now += 10
        assert begin(calls, ending)


def test_who_is_not_known_to_answer_leaves_a_quarter_of_the_slots_to_the_others(calls: OpenCalls, clock: Clock) -> None:
    calls.limit(slots=8, slow=20)
    good, hangs = uuid4(), uuid4()
    call(calls, good, clock, SLOW_AFTER / 10)
    call(calls, hangs, clock, SLOW_AFTER)
    with ExitStack() as ending:
        assert [begin(calls, ending) for _ in range(27)] == [True] * 26 + [False]
        clock.now += 5
        assert calls.slow() == 26
        assert not begin(calls, ending)
        assert not begin(calls, ending, hangs)
        assert begin(calls, ending, good)
        assert begin(calls, ending, good)
    assert calls.slow() == 0
    with ExitStack() as ending:
        assert begin(calls, ending, hangs)


def test_calls_to_those_that_answer_take_no_room_from_the_others_until_they_are_slow(
    calls: OpenCalls, clock: Clock
) -> None:
    calls.limit(slots=4, slow=4)
    good = uuid4()
    call(calls, good, clock, 0.0)
    with ExitStack() as ending:
        assert all(begin(calls, ending, good) for _ in range(7))
        assert begin(calls, ending)
        clock.now += SLOW_AFTER
        assert not begin(calls, ending)


def test_a_slow_answer_is_forgotten_as_an_answer(calls: OpenCalls, clock: Clock) -> None:
    calls.limit(slots=4, slow=0)
    place = uuid4()
    call(calls, place, clock, 0.0)
    call(calls, place, clock, SLOW_AFTER)
    with ExitStack() as ending:
        assert all(begin(calls, ending) for _ in range(3))
        assert not begin(calls, ending, place)


def test_only_so_many_are_remembered(calls: OpenCalls, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_calls, "REMEMBERED", 2)
    calls.limit(slots=4, slow=0)
    places = [uuid4() for _ in range(3)]
    for each in (places[0], places[1], places[0], places[2]):
        call(calls, each, clock, 0.0)
    with ExitStack() as ending:
        assert all(begin(calls, ending) for _ in range(3))
        assert [begin(calls, ending, each) for each in places] == [True, False, True]


@pytest.mark.parametrize("slots", [1, 8, 32])
def test_a_process_of_one_thread_may_call_and_every_process_has_a_bound(slots: int) -> None:
    assert slow_room(slots) == SLOW_PER_SLOT * slots
    assert slow_room(1000) == MOST_SLOW
    alone = OpenCalls()
    alone.limit(slots=1, slow=0)
    with ExitStack() as ending:
        assert begin(alone, ending)

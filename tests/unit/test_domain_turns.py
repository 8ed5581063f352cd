"""Turns under caps, as pure rules."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.turns import LONGEST_LOOK, LOOKED_AT_AGAIN, Cap, Turns, Waiting, capacity, default_burst

ONE, TWO = UUID(int=1), UUID(int=2)
NOW = 1_000_000.0


def cap(per_second=10.0, burst=5, next_at=0.0, room=None, id_=ONE):
    return Cap(id_, per_second, burst, next_at, room)


def waiting(number, tenant="a", caps=(ONE,), since=None, waited=False):
    return Waiting(UUID(int=1000 + number), tenant, caps, NOW - 1000 + number if since is None else since, waited)


def give(caps, rows, tails=None):
    turns = Turns(NOW, {each.id: each for each in caps}, {} if tails is None else tails)
    turns.give(rows)
    return turns


def test_the_burst_goes_and_the_rest_is_spaced():
    turns = give([cap()], [waiting(n) for n in range(8)])
    assert turns.given == [UUID(int=1000 + n) for n in range(5)]
    assert [each.wake_at - NOW for each in turns.put_off] == pytest.approx([0.1, 0.2, 0.3])


def test_the_rest_is_behind_what_waits_already():
    turns = give([cap(next_at=NOW + 1)], [waiting(0)], {(ONE, "a"): NOW + 50})
    assert [each.wake_at - NOW for each in turns.put_off] == [50]
    assert turns.tails == {(ONE, "a"): pytest.approx(NOW + 50.1)}


def test_who_is_refused_by_a_narrower_cap_takes_no_turn_of_the_wider():
    narrow, wide = cap(burst=1, per_second=1.0), cap(burst=4, per_second=1.0, id_=TWO)
    rows = [waiting(n, caps=(ONE, TWO)) for n in range(5)] + [waiting(10 + n, "b", (TWO,)) for n in range(5)]
    turns = give([narrow, wide], rows)
    assert [each.int - 1000 for each in turns.given] == [0, 10, 11, 12]


def test_tenants_go_in_turn():
    turns = give([cap(burst=4, per_second=1.0)], [*[waiting(n) for n in range(10)], waiting(20, "b"), waiting(21, "b")])
    assert [each.int - 1000 for each in turns.given] == [0, 20, 1, 21]


def test_a_tenant_that_shares_waits_as_many_turns_as_there_are_tenants():
    turns = give([cap(next_at=NOW + 1)], [waiting(0, "b")], {(ONE, "a"): NOW + 5000})
    assert [each.wake_at - NOW for each in turns.put_off] == pytest.approx([0.2])


def test_room_for_calls_is_taken_and_what_waits_for_a_call_is_looked_at_ever_less():
    turns = give(
        [cap(per_second=None, room=2)],
        [waiting(n, since=NOW - waited) for n, waited in enumerate((0, 0, 0, 100, 10_000))],
    )
    assert len(turns.given) == 2
    assert sorted(each.wake_at - NOW for each in turns.put_off) == [LOOKED_AT_AGAIN, LOOKED_AT_AGAIN, LOOKED_AT_AGAIN]
    last = give([cap(per_second=None, room=0)], [waiting(0, since=NOW - 10_000)])
    assert [each.wake_at - NOW for each in last.put_off] == [LONGEST_LOOK]


@pytest.mark.parametrize(("rate", "burst"), [(0.1, 1), (1.4, 1), (2.5, 2), (100.0, 100)])
def test_the_default_burst_is_one_seconds_worth(rate, burst):
    assert default_burst(rate) == burst


@given(
    rate=st.floats(0.05, 500),
    burst=st.integers(1, 100),
    looks=st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 60)), min_size=1, max_size=30),
)
def test_over_any_time_no_more_go_than_the_rate_and_the_burst(rate, burst, looks):
    one = cap(per_second=rate, burst=burst)
    now, number = NOW, 0
    times: list[float] = []
    for pause, count in looks:
        now += pause
        turns = Turns(now, {ONE: one}, {})
        turns.give([waiting(number + n, since=NOW) for n in range(count)])
        number += count
        times += [now] * len(turns.given)
    for start in set(times):
        for end in set(times):
            within = sum(start <= each <= end for each in times)
            assert within <= capacity(rate, burst) + rate * max(0.0, end - start) + 1e-3 + 1 * (end < start)

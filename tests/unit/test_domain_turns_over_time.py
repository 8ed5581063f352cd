"""Turns over time, by a clock of the test's own: looks come late, tenants share, and the rates are kept all the same."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from reminders.domain.turns import LATEST, SERVED_FOR, Cap, Turns, Waiting, capacity

CHANNEL, OWN = UUID(int=1), UUID(int=2)
START = 1_000_000.0


@dataclass
class Queue:
    """A ledger in memory: rows that wake, looked at `late` seconds after the first of them at the most."""

    caps: dict[UUID, Cap]
    late: float
    rows: list[tuple[float, int, str, tuple[UUID, ...], bool]] = field(default_factory=list)
    served: dict[tuple[UUID, str], float] = field(default_factory=dict)
    tails: dict[tuple[UUID, str], float] = field(default_factory=dict)
    now: float = START
    moves: int = 0
    numbers: itertools.count = field(default_factory=itertools.count)
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def due(self, tenant: str, count: int, *caps: UUID) -> None:
        for _ in range(count):
            heapq.heappush(self.rows, (self.now, next(self.numbers), tenant, caps, False))

    def look(self) -> list[str]:
        """Whose rows go at the next look."""
        self.now = max(self.now, self.rows[0][0]) + self.chance.uniform(0.0, self.late)
        awake = {}
        while self.rows and self.rows[0][0] <= self.now:
            row = heapq.heappop(self.rows)
            awake[UUID(int=1000 + row[1])] = row
        self.tails = {key: end for key, end in self.tails.items() if end > self.now}
        self.served = {key: at for key, at in self.served.items() if at > self.now - SERVED_FOR}
        turns = Turns(self.now, self.caps, self.tails, self.served)
        turns.give([Waiting(id_, row[2], row[3], START + row[1] / 1e6, row[4]) for id_, row in awake.items()])
        for off in turns.put_off:
            _, number, tenant, caps, _ = awake[off.id]
            heapq.heappush(self.rows, (off.wake_at, number, tenant, caps, True))
        self.moves += len(turns.put_off)
        return [awake[each][2] for each in turns.given]

    def run(self, seconds: float) -> Counter[str]:
        """How many of whose go within so many seconds."""
        end = self.now + seconds
        went: Counter[str] = Counter()
        while self.rows and self.rows[0][0] < end:
            went.update(self.look())
        return went


def cap(id_: UUID, per_second: float, burst: int, *, shared: bool = False) -> Cap:
    return Cap(id_, per_second, burst, 0.0, None, shared)


@pytest.mark.parametrize(("rate", "burst"), [(3.0, 1), (0.5, 1), (5.0, 5), (20.0, 1), (0.1, 1)])
def test_looks_that_come_late_lose_no_turn(rate, burst):
    queue = Queue({OWN: cap(OWN, rate, burst)}, late=0.6)
    queue.due("a", 7000, OWN)
    seconds = 300.0
    went = queue.run(seconds)["a"]
    assert 0.97 * rate * seconds <= went <= capacity(rate, burst) + rate * (seconds + LATEST)
    # Each waits once, and few more than once.
    assert queue.moves <= 7000 + 0.05 * went


def test_after_a_quiet_time_only_the_burst_goes_together():
    queue = Queue({OWN: cap(OWN, 2.0, 1)}, late=0.0)
    queue.due("a", 5, OWN)
    assert len(queue.look()) == 1


def test_a_scanner_that_was_away_gives_no_more_than_a_second_of_turns_together():
    queue = Queue({OWN: cap(OWN, 10.0, 2)}, late=0.0)
    queue.due("a", 900, OWN)
    assert len(queue.look()) == 2
    queue.now += 60.0
    assert len(queue.look()) <= 10 * LATEST + 1


def test_turns_that_are_shared_go_evenly_round_tenants_and_those_with_caps_of_their_own_have_theirs():
    """A tenant's own cap lets few of its rows wake; of a turn that comes while none is awake it must not hear too late."""
    queue = Queue({CHANNEL: cap(CHANNEL, 5.0, 5, shared=True), OWN: cap(OWN, 0.5, 1)}, late=0.15)
    queue.due("loud", 3000, CHANNEL)
    queue.due("louder", 3000, CHANNEL)
    queue.run(30.0)
    queue.due("narrow", 200, OWN, CHANNEL)
    went = queue.run(60.0)
    assert went.total() == pytest.approx(5 * 60, rel=0.05)
    assert went["narrow"] == pytest.approx(0.5 * 60, rel=0.15)
    assert went["loud"] == pytest.approx(went["louder"], rel=0.25)


def test_many_tenants_share_evenly_and_rows_are_not_put_off_without_end():
    queue = Queue({CHANNEL: cap(CHANNEL, 20.0, 20, shared=True)}, late=0.15)
    names = [f"t{number}" for number in range(40)]
    for name in names:
        queue.due(name, 300, CHANNEL)
    went = queue.run(120.0)
    assert went.total() == pytest.approx(20 * 120, rel=0.05)
    assert min(went[name] for name in names) >= 0.7 * 20 * 120 / 40
    assert queue.moves <= 40 * 300 + 10 * went.total()

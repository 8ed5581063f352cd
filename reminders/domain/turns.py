"""Turns under caps: which of the reminders that are due may go now, and when the others are looked at again.

A cap's rate is kept as one instant, when its next turn is: each turn that is given moves it by the spacing, and it lags
behind the present by at most the burst. What gets no turn now waits behind its tenant's others, where the tail of that
queue is; a rate that several tenants share goes round them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

SHORTEST_LAG = 0.25
"""Seconds' worth of turns that may be given together at least, whatever the burst: the scan looks in handfuls."""
LOOKED_AT_AGAIN = 60.0
"""Seconds after which what waits for an open call's end is looked at by itself; its turn comes when a call ends."""
LONGEST_LOOK = 600.0
SHARED_WAIT = 0.1
"""What waits at a rate that others share waits on for at least this part of what it has waited."""
LONGEST_SHARED_WAIT = 30.0


def default_burst(per_second: float) -> int:
    """One second's worth, at least one."""
    return max(1, round(per_second))


def capacity(per_second: float, burst: int) -> float:
    """How many tokens a bucket holds: the burst, or what `SHORTEST_LAG` comes to if that is more."""
    return max(float(burst), per_second * SHORTEST_LAG)


@dataclass(frozen=True, slots=True)
class KnownCap:
    """A cap as a worker knows it: so many a second after so many together, and calls at once; None is uncapped."""

    id: UUID
    per_second: float | None
    burst: int
    concurrent: int | None
    lets_go: bool = False
    """Whether it is the rate of a drain, or of a resume: what it refuses is held again, and let go by its age."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A cap that has no token now, and in how many seconds the turn comes that it keeps."""

    cap: UUID
    seconds: float


@dataclass
class Cap:
    """A cap as turns are given under it. Instants are seconds since the epoch; `room` is for open calls, None if uncapped."""

    id: UUID
    per_second: float | None
    burst: int
    next_at: float
    room: int | None

    def has_turn(self, now: float) -> bool:
        """Whether one more may go now."""
        return (self.room is None or self.room > 0) and (self.per_second is None or self._next(now) <= now)

    def take(self, now: float) -> None:
        """Give one turn."""
        if self.room is not None:
            self.room -= 1
        if self.per_second is not None:
            self.next_at = self._next(now) + 1 / self.per_second

    def _next(self, now: float) -> float:
        assert self.per_second is not None
        # The turn that is taken at `next_at` itself belongs to the burst.
        return max(self.next_at, now - (capacity(self.per_second, self.burst) - 1) / self.per_second)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A due reminder that caps cover. `since` is when it first was due without a turn, or now is."""

    id: UUID
    tenant_id: str
    caps: Sequence[UUID]
    since: float
    waited: bool
    """Whether it has been put off before."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """A reminder without a turn: by which cap, and when it is looked at again."""

    id: UUID
    rate_id: UUID
    wake_at: float


@dataclass
class Turns:
    """The turns of one look. `tails` is when each tenant's queue under a cap ends, by cap and tenant; it is kept up."""

    now: float
    caps: Mapping[UUID, Cap]
    tails: dict[tuple[UUID, str], float]
    given: list[UUID] = field(default_factory=list)
    put_off: list[PutOff] = field(default_factory=list)

    def give(self, waiting: Sequence[Waiting]) -> None:
        """Decide about each: every tenant's oldest first, then every tenant's second. Who is refused has had no turn."""
        refused: dict[UUID, int] = {}
        queues = _queues(waiting)
        while queues:
            for queue in queues:
                while queue:
                    one = queue.popleft()
                    caps = [self.caps[each] for each in one.caps]
                    short = next((cap for cap in caps if not cap.has_turn(self.now)), None)
                    if short is None:
                        for cap in caps:
                            cap.take(self.now)
                        self.given.append(one.id)
                        break
                    refused[short.id] = refused.get(short.id, 0) + 1
                    self.put_off.append(PutOff(one.id, short.id, self._wake_at(one, short, refused[short.id])))
            queues = [queue for queue in queues if queue]

    def _wake_at(self, one: Waiting, cap: Cap, place: int) -> float:
        waited = max(0.0, self.now - one.since)
        if cap.per_second is None or (cap.room is not None and cap.room <= 0):
            # It is woken when a call ends. Looking by itself is for what nobody wakes, and costs ever less.
            return self.now + min(LOOKED_AT_AGAIN + waited, LONGEST_LOOK)
        sharing = self._sharing(cap.id, one.tenant_id)
        if one.waited:
            # Its turn had come, and another tenant's went first.
            again = place * sharing / cap.per_second
            return self.now + (again if sharing == 1 else max(again, min(waited * SHARED_WAIT, LONGEST_SHARED_WAIT)))
        spacing = sharing / cap.per_second
        first = cap.next_at if sharing == 1 else self.now + spacing
        turn = max(self.tails.get((cap.id, one.tenant_id), 0.0), first, self.now)
        self.tails[cap.id, one.tenant_id] = turn + spacing
        return turn

    def _sharing(self, cap: UUID, tenant: str) -> int:
        """How many tenants wait under the cap, this one included."""
        others = {name for (id_, name), end in self.tails.items() if id_ == cap and end > self.now}
        return len(others | {tenant})


def _queues(waiting: Sequence[Waiting]) -> list[deque[Waiting]]:
    """One for each tenant, oldest first, that of whoever waits longest before the others."""
    queues: dict[str, deque[Waiting]] = {}
    for one in sorted(waiting, key=lambda each: (each.since, each.id)):
        queues.setdefault(one.tenant_id, deque()).append(one)
    return list(queues.values())

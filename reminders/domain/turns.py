"""Turns under caps: which of the reminders that are due may go now, and when the others are looked at again.

A cap's rate is kept as one instant, when its next turn is: each turn that is given moves it by the spacing, and it lags
behind the present by at most the burst; while somebody waits, by `LATEST` too, since what is looked at late must not lose its
turn. What gets no turn now waits behind its tenant's others, where the tail of that queue is; a rate that several tenants share
goes round them, and who has had no turn for longest goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

SHORTEST_LAG = 0.25
"""Seconds' worth of turns that may be given together at least, whatever the burst: the scan looks in handfuls."""
LATEST = 1.0
"""Seconds by which a turn may be given, or its token taken, late without being lost to those that wait."""
SERVED_FOR = 60.0
"""Seconds for which it is remembered when a tenant has had a turn of a cap that others share."""
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
    """How many turns may go together after a quiet time: the burst, or what `SHORTEST_LAG` comes to if that is more."""
    return max(float(burst), per_second * SHORTEST_LAG)


def bucket_size(per_second: float, burst: int) -> float:
    """How many tokens a bucket holds: what may go together, and what may come late.

    Turns are spaced by the scan; messages come at their claims sooner or later after it. A bucket that held no more than one
    would lose a turn with each that comes later than the one before.
    """
    return capacity(per_second, burst) + per_second * LATEST


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
    """A cap that has no token now, in how many seconds the turn comes that it keeps, and in how many it has a token at all.

    The last is 0 where it is no token that is missing.
    """

    cap: UUID
    seconds: float
    token_in: float = 0.0


@dataclass
class Cap:
    """A cap as turns are given under it. Instants are seconds since the epoch; `room` is for open calls, None if uncapped."""

    id: UUID
    per_second: float | None
    burst: int
    next_at: float
    room: int | None
    shared: bool = False
    """Whether it is of several tenants."""

    def has_turn(self, now: float) -> bool:
        """Whether one more may go now."""
        return (self.room is None or self.room > 0) and (self.per_second is None or self.next_at <= now)

    def take(self, now: float, *, queued: bool) -> None:
        """Give one turn; `queued` says that somebody waits, or has waited for it."""
        if self.room is not None:
            self.room -= 1
        if self.per_second is not None:
            # The turn that is taken at `next_at` itself belongs to the burst.
            lag = (capacity(self.per_second, self.burst) - 1) / self.per_second
            self.next_at = max(self.next_at, now - (max(lag, LATEST) if queued else lag)) + 1 / self.per_second


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
    """The turns of one look. `tails` is when each tenant's queue under a cap ends, by cap and tenant; it is kept up.

    So is `served`, which says when each tenant has last had a turn of a cap that others share, as far as anybody waits there.
    """

    now: float
    caps: Mapping[UUID, Cap]
    tails: dict[tuple[UUID, str], float]
    served: dict[tuple[UUID, str], float] = field(default_factory=dict)
    given: list[UUID] = field(default_factory=list)
    put_off: list[PutOff] = field(default_factory=list)
    _refused: dict[UUID, int] = field(default_factory=dict)
    _owed: dict[UUID, set[str]] = field(default_factory=dict)
    _waiting: dict[UUID, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (cap, tenant), end in self.tails.items():
            if end > self.now:
                self._waiting.setdefault(cap, set()).add(tenant)

    def give(self, waiting: Sequence[Waiting]) -> None:
        """Decide about each: every tenant's oldest first, then every tenant's second. Who is refused has had no turn."""
        queues = self._queues(waiting)
        while queues:
            for queue in queues:
                while queue:
                    one = queue.popleft()
                    caps = [self.caps[each] for each in one.caps]
                    short = next((cap for cap in caps if not cap.has_turn(self.now)), None)
                    if short is None:
                        for cap in caps:
                            self._take(cap, one)
                        self.given.append(one.id)
                        break
                    self._refused[short.id] = self._refused.get(short.id, 0) + 1
                    self.put_off.append(PutOff(one.id, short.id, self._wake_at(one, short)))
            queues = [queue for queue in queues if queue]

    def _take(self, cap: Cap, one: Waiting) -> None:
        queued = cap.id in self._waiting
        cap.take(self.now, queued=one.waited or queued)
        if cap.shared and (queued or cap.id in self._refused):
            self.served[cap.id, one.tenant_id] = self.now

    def _wake_at(self, one: Waiting, cap: Cap) -> float:
        waited = max(0.0, self.now - one.since)
        if cap.per_second is None or (cap.room is not None and cap.room <= 0):
            # It is woken when a call ends. Looking by itself is for what nobody wakes, and costs ever less.
            return self.now + min(LOOKED_AT_AGAIN + waited, LONGEST_LOOK)
        names = self._waiting.get(cap.id, set())
        sharing = len(names | {one.tenant_id})
        spacing = sharing / cap.per_second
        if sharing > 1 and self._is_owed(one, cap, spacing):
            owed = self._owed.setdefault(cap.id, set())
            owed.add(one.tenant_id)
            return max(self.now, cap.next_at) + (len(owed) - 1) / cap.per_second
        if one.waited:
            # Its turn had come, and another's went first.
            again = max(self.now, cap.next_at) + (self._refused[cap.id] * sharing - 1) / cap.per_second
            return again if sharing == 1 else max(again, self.now + min(waited * SHARED_WAIT, LONGEST_SHARED_WAIT))
        first = cap.next_at if sharing == 1 else self.now + spacing
        turn = max(self.tails.get((cap.id, one.tenant_id), 0.0), first, self.now)
        self.tails[cap.id, one.tenant_id] = turn + spacing
        self._waiting.setdefault(cap.id, set()).add(one.tenant_id)
        return turn

    def _is_owed(self, one: Waiting, cap: Cap, spacing: float) -> bool:
        """Whether one of the next turns is its: its tenant has had none for a round. A cap of its own may leave it few."""
        had = self.served.get((cap.id, one.tenant_id), 0.0)
        return cap.shared and one.tenant_id not in self._owed.get(cap.id, ()) and self.now - had >= spacing

    def _queues(self, waiting: Sequence[Waiting]) -> list[deque[Waiting]]:
        """One for each tenant, oldest first; first that of who has had no turn for longest where turns are shared, or waits longest."""
        queues: dict[str, deque[Waiting]] = {}
        for one in sorted(waiting, key=lambda each: (each.since, each.id)):
            queues.setdefault(one.tenant_id, deque()).append(one)
        served = {
            tenant: max((self.served.get((cap, tenant), 0.0) for one in queue for cap in one.caps), default=0.0)
            for tenant, queue in queues.items()
        }
        return [queues[tenant] for tenant in sorted(queues, key=served.__getitem__)]

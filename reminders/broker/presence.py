"""Which worker processes are alive, what they consume and how much each can hold: known by what they last said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from reminders.broker.link import Link
from reminders.celery_options import DELIVERY_QUEUES, KEY_PREFIX
from reminders.domain.tenants import MAIN

KEY = KEY_PREFIX + "workers"
DISPATCHERS_KEY = KEY_PREFIX + "dispatchers"
"""Of whose workers speak here: an older release cannot read a worker's own words if there are more of them."""
DROPPED_KEY = KEY_PREFIX + "dropped_by_name"
COUNTED_KEY = KEY_PREFIX + "counted"
"""What processes count besides, by the names of `reminders.pipeline.tally`."""
SILENT_AFTER = 3.0
"""Seconds after which a worker that says nothing counts as gone. It speaks every second."""
FORGOTTEN_AFTER = 3600.0
"""Seconds after which one is no longer known that said nothing more and did not sign off."""
LEAVING = b"leaving"
"""What one that was told to stop says in place of when it began."""
Replies = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Presence:
    """One worker process. `capacity` is how many unacknowledged messages it may hold."""

    node: str
    pid: int
    queues: tuple[str, ...]
    capacity: int

    @property
    def delivers(self) -> bool:
        return any(queue in DELIVERY_QUEUES for queue in self.queues)


def progress_key(presence: Presence) -> str:
    """Under which a process says for how many seconds it has not got on."""
    return f"{KEY_PREFIX}progress:{presence.node}:{presence.pid}"


def since_key(presence: Presence) -> str:
    """Under which a process says when it began to speak, by the broker's clock, or that it is leaving."""
    return f"{KEY_PREFIX}since:{presence.node}:{presence.pid}"


def announce(
    link: Link,
    presence: Presence,
    *,
    instead_of: Presence | None = None,
    dropped: Mapping[str, int] | None = None,
    counted: Mapping[str, int] | None = None,
    progress_age: float = 0.0,
    dispatcher: str = MAIN,
    leaving: bool = False,
) -> None:
    """Say that this worker is alive, by the broker's clock; add `dropped` messages, and what it has `counted` besides, to the
    common counts by name.

    `dispatcher` is whose worker it is; `instead_of` is what it said before, None the first time; `progress_age` is for how many
    seconds it has not got on. One that is `leaving` may be silent from now on. Raises `BrokerAway`.
    """
    with link.redis() as client:
        now = _instant(client.time())
        with client.pipeline(transaction=False) as pipe:
            pipe.zadd(KEY, {_encode(presence): now})
            pipe.zremrangebyscore(KEY, "-inf", now - FORGOTTEN_AFTER)
            pipe.zadd(DISPATCHERS_KEY, {dispatcher: now})
            pipe.zremrangebyscore(DISPATCHERS_KEY, "-inf", now - 60 * SILENT_AFTER)
            if instead_of is not None and instead_of != presence:
                pipe.zrem(KEY, _encode(instead_of))
            for name, count in (dropped or {}).items():
                pipe.hincrby(DROPPED_KEY, name, count)
            for name, count in (counted or {}).items():
                pipe.hincrby(COUNTED_KEY, name, count)
            pipe.set(progress_key(presence), f"{progress_age:.1f}", ex=int(60 * SILENT_AFTER))
            # An id is given again, in a container to the very next process. To the microsecond: rounded up, one would have begun
            # after another that spoke later.
            began = LEAVING if leaving else repr(now)
            pipe.set(since_key(presence), began, ex=_REMEMBERED, nx=not leaving and instead_of is not None)
            pipe.expire(since_key(presence), _REMEMBERED)
            pipe.execute()


def sign_off(link: Link, presence: Presence) -> None:
    """Say that this worker is gone. Raises `BrokerAway`."""
    with link.redis() as client, client.pipeline(transaction=False) as pipe:
        pipe.zrem(KEY, _encode(presence))
        pipe.delete(since_key(presence), progress_key(presence))
        pipe.execute()


def ask(pipe: redis.client.Pipeline) -> None:
    """Add to `pipe` what `living` needs: two replies."""
    pipe.time()
    pipe.zrange(KEY, 0, -1, withscores=True)


def heard(replies: Replies) -> tuple[float, list[tuple[Presence, float]]]:
    """The time, and who has spoken and when last, by the two replies that `ask` asked for, alive or not."""
    time, rows = replies
    return _instant(time), [(_decode(member), seen) for member, seen in rows]


def living(replies: Replies) -> list[Presence]:
    """The workers alive, by the same replies."""
    now, rows = heard(replies)
    return [worker for worker, seen in rows if now - seen <= SILENT_AFTER]


_REMEMBERED = int(FORGOTTEN_AFTER + 60)


def ask_dispatchers(pipe: redis.client.Pipeline) -> None:
    """Add to `pipe` what `living_dispatchers` needs: two replies."""
    pipe.time()
    pipe.zrange(DISPATCHERS_KEY, 0, -1, withscores=True)


def living_dispatchers(replies: Sequence[Any]) -> list[str]:
    """The dispatchers whose workers speak here, by the two replies that `ask_dispatchers` asked for."""
    time, rows = replies
    oldest = _instant(time) - SILENT_AFTER
    return sorted(member.decode(errors="replace") for member, seen in rows if seen >= oldest)


def _instant(time: Any) -> float:
    seconds, microseconds = time
    return float(seconds) + float(microseconds) / 1e6


def _encode(presence: Presence) -> str:
    return json.dumps([presence.node, presence.pid, presence.queues, presence.capacity], separators=(",", ":"))


def _decode(member: bytes) -> Presence:
    node, pid, queues, capacity = json.loads(member)
    return Presence(node, pid, tuple(queues), capacity)

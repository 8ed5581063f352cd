"""Which worker processes have fallen silent without having signed off: frozen, or killed and never replaced.

One that stops as it should says so before. Of the others, who has been replaced is no loss: by a process of the same name, which
its parent has started again; or, where the parent has nobody left alive, by one of the same queues that began after it fell silent,
on the same host if anybody lives there. After an hour it is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import redis

from reminders.broker.presence import LEAVING, SILENT_AFTER, Presence, Replies, heard, since_key


@dataclass(frozen=True, slots=True)
class Silent:
    """A process that has said nothing for so many seconds."""

    presence: Presence
    seconds: float


def silent_ones(client: redis.Redis, replies: Replies) -> list[Silent]:
    """Those silent now, longest first, by the replies that `presence.ask` asked for. One more round trip if anybody is silent."""
    now, rows = heard(replies)
    if all(now - seen <= SILENT_AFTER for _, seen in rows):
        return []
    began = client.mget([since_key(worker) for worker, _ in rows])
    alive = [
        (worker, _instant(start))
        for (worker, seen), start in zip(rows, began, strict=True)
        if now - seen <= SILENT_AFTER
    ]
    # One that is leaving has said so; one of a release that signs off nowhere says nothing of when it began.
    gone = [
        (worker, seen)
        for (worker, seen), start in zip(rows, began, strict=True)
        if now - seen > SILENT_AFTER and _instant(start) is not None
    ]
    return [Silent(worker, now - seen) for worker, seen in _not_replaced(gone, alive)]


def _not_replaced(
    gone: Sequence[tuple[Presence, float]], alive: Sequence[tuple[Presence, float | None]]
) -> list[tuple[Presence, float]]:
    left = list(alive)
    found = []
    for worker, seen in sorted(gone, key=lambda each: each[1]):
        for each in left:
            if each[1] is not None and each[1] >= seen and _takes_over(each[0], worker, alive):
                left.remove(each)
                break
        else:
            found.append((worker, seen))
    return found


def _takes_over(one: Presence, other: Presence, alive: Sequence[tuple[Presence, float | None]]) -> bool:
    if one.node == other.node:
        return True
    if one.queues != other.queues or any(_parent(each) == _parent(other) for each, _ in alive):
        return False
    return _host(one) == _host(other) or all(_host(each) != _host(other) for each, _ in alive)


def _parent(worker: Presence) -> str:
    """Its host and, in the names that `reminders worker` gives, the id of the parent that restarts it: `deliver1.77@host`."""
    name, _, host = worker.node.rpartition("@")
    return f"{name.rpartition('.')[2] if '.' in name else name}@{host}"


def _host(worker: Presence) -> str:
    return worker.node.rpartition("@")[2]


def _instant(start: bytes | str | None) -> float | None:
    return None if start is None or start == LEAVING else float(start)

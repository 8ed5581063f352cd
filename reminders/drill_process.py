"""A Celery process that `reminders drill` kills in one gap between two steps: it reaches the gap, says so, and stays there.

    python -m reminders.drill_process GAP COUNT DESCRIPTOR CELERY-ARGUMENT...

The stages are the product's own; the parts that `bootstrap` hands them are wrapped here, in this process alone. COUNT
threads are awaited in the gap before a byte is written to DESCRIPTOR.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from threading import Event, Lock
from typing import Any

from reminders import bootstrap, supervised
from reminders.ledger import planning
from reminders.ledger.database import Database
from reminders.operate import retention
from reminders.operate.drills.later import later
from reminders.pipeline.deliver import Deliver
from reminders.pipeline.ports import Message, Publisher, RepairMoves, ScanLedger
from reminders.pipeline.scan import Scan
from reminders.pipeline.shadow import Shadow

ACCEPTED = 61
"""Messages that the broker takes of a batch in the gap `refused`."""


@dataclass
class Gap:
    """Where threads stay for ever, until the process is killed."""

    count: int
    descriptor: int
    _here: int = 0
    _lock: Lock = field(default_factory=Lock)

    def stay(self) -> None:
        with self._lock:
            self._here += 1
            if self._here == self.count:
                os.write(self.descriptor, b".")
        Event().wait()


class _Stopping:
    """`part`, except that a thread which calls `method` stays in the gap: before the call, or after it was answered.

    An answer that `nothing` recognises is handed on instead: there was nothing to do.
    """

    def __init__(
        self,
        part: object,
        method: str,
        gap: Gap,
        *,
        before: bool = False,
        nothing: Callable[[Any], bool] = lambda _answer: False,
    ) -> None:
        self._part = part
        self._method = method
        self._gap = gap
        self._before = before
        self._nothing = nothing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return self._stopped(found) if name == self._method else found

    def _stopped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*arguments: Any, **named: Any) -> Any:
            if self._before:
                self._gap.stay()
            answer = call(*arguments, **named)
            if not self._nothing(answer):
                self._gap.stay()
            return answer

        return stopped


@dataclass(frozen=True)
class _Accepting:
    """A broker that takes `taken` messages of a batch, and says that it took `told`; None means all."""

    publisher: Publisher
    taken: int | None
    told: int | None

    def publish(self, messages: Sequence[Message]) -> int:
        accepted = self.publisher.publish(messages[: self.taken])
        return accepted if self.told is None else self.told


class _RepairingHalf:
    """A ledger whose repair stays in the gap after its first move, with its transaction open."""

    def __init__(self, ledger: ScanLedger, gap: Gap) -> None:
        self._ledger = ledger
        self._gap = gap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    @contextmanager
    def repair(self, limit: int) -> Iterator[RepairMoves]:
        with self._ledger.repair(limit) as moves:
            half: Any = _Stopping(moves, "repeat", self._gap)
            yield half


class _HalfDone:
    """A database that stays in the gap before the second step of a purge is sent to it."""

    def __init__(self, database: Database, gap: Gap) -> None:
        self._database = database
        self._gap = gap
        self._begun = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def fetch_together(self, *given: Any) -> Any:
        self._begun += 1
        if self._begun == 2:
            self._gap.stay()
        return self._database.fetch_together(*given)


def _leasing(scan: Scan, gap: Gap) -> Scan:
    ledger: Any = _Stopping(scan.ledger, "lease", gap, nothing=lambda leased: not leased)
    return replace(scan, ledger=ledger)


def _publishing(scan: Scan, gap: Gap) -> Scan:
    publisher: Any = _Stopping(scan.publisher, "publish", gap, before=True)
    return replace(scan, publisher=publisher)


def _taken_back(taken: int | None, told: int | None) -> Callable[[Scan, Gap], Scan]:
    def wrapped(scan: Scan, gap: Gap) -> Scan:
        ledger: Any = _Stopping(scan.ledger, "take_back_if_published", gap)
        return replace(scan, ledger=ledger, publisher=_Accepting(scan.publisher, taken, told))

    return wrapped


def _repairing(scan: Scan, gap: Gap) -> Scan:
    ledger: Any = _RepairingHalf(scan.ledger, gap)
    return replace(scan, ledger=ledger)


def _planning(scan: Scan, gap: Gap) -> Scan:
    half: Any = _Stopping(planning, "settle", gap, nothing=lambda made: not made)
    planning.settle = half.settle
    return scan


def _claiming(*, before: bool) -> Callable[[Deliver, Gap], Deliver]:
    def wrapped(deliver: Deliver, gap: Gap) -> Deliver:
        claims: Any = _Stopping(deliver.claims, "claim", gap, before=before, nothing=lambda claim: claim is None)
        return replace(deliver, claims=claims)

    return wrapped


def _finalizing(*, before: bool) -> Callable[[Deliver, Gap], Deliver]:
    def wrapped(deliver: Deliver, gap: Gap) -> Deliver:
        ledger: Any = _Stopping(deliver.finalize.ledger, "finalize_delivered_if_sending", gap, before=before)
        return replace(deliver, finalize=replace(deliver.finalize, ledger=ledger))

    return wrapped


def _shadowing(deliver: Deliver, gap: Gap) -> Deliver:
    assert isinstance(deliver.shadow, Shadow)
    ledger: Any = _Stopping(deliver.shadow.ledger, "shadow_if_still_so", gap, before=True)
    return replace(deliver, shadow=replace(deliver.shadow, ledger=ledger))


SCANNER_GAPS: dict[str, Callable[[Scan, Gap], Scan]] = {
    "leased": _leasing,
    "marked": _publishing,
    "answer-lost": _taken_back(None, 0),
    "refused": _taken_back(ACCEPTED, None),
    "half-repaired": _repairing,
    "half-planned": _planning,
}
WORKER_GAPS: dict[str, Callable[[Deliver, Gap], Deliver]] = {
    "taken": _claiming(before=True),
    "claimed": _claiming(before=False),
    "answered": _finalizing(before=True),
    "recorded": _finalizing(before=False),
    "shadowed": _shadowing,
}
HALF_PURGED = "half-purged"
"""The gap of the purge: its first step is committed, its second is not begun."""


def _stop_purging(gap: Gap) -> None:
    database: Any = bootstrap.database
    half: Any = lru_cache(maxsize=1)(lambda: _HalfDone(database(), gap))
    bootstrap.database = half
    # The task takes it from there when Celery loads it.
    retention.purge = partial(retention.purge, now=later(bootstrap.installation()))


def main() -> None:
    """Run `celery` with what follows the gap, its count and its descriptor."""
    name, gap = sys.argv[1], Gap(int(sys.argv[2]), int(sys.argv[3]))
    del sys.argv[1:4]
    if name in SCANNER_GAPS:
        scan = bootstrap.scan
        bootstrap.scan = lru_cache(maxsize=1)(lambda: SCANNER_GAPS[name](scan(), gap))
    elif name == HALF_PURGED:
        _stop_purging(gap)
    else:
        deliver = bootstrap.deliver
        bootstrap.deliver = lru_cache(maxsize=1)(
            lambda: replace(deliver(), deliver=WORKER_GAPS[name](deliver().deliver, gap))
        )
    supervised.main()


if __name__ == "__main__":
    main()

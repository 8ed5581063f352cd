"""When a destination's breaker opens: of its calls that one worker process has lately made, too many failed.

Each process judges by what it saw itself, in memory: a destination that works costs nothing, and none is written to for a
count. Whether the breaker is open, and who asks when it is half open, is the ledger's alone.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from uuid import UUID

from reminders.domain.outcomes import Blocked, Outcome, Rejected, Retry, Unknown

MOST_DESTINATIONS = 10_000
"""Whose samples one process keeps; those of the longest untouched go first."""
MOST_CALLS = 200
"""Calls of one destination that are kept."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """It opens once, of at least `calls` calls within `window` seconds, the part `share` has failed; with `share` 0, never.

    It stays open for `open_for` seconds, and after each failed probe for twice as long as before, at most `longest`.
    """

    window: float = 60.0
    calls: int = 5
    share: float = 0.5
    open_for: float = 30.0
    longest: float = 900.0


def counts_against_health(outcome: Outcome) -> bool | None:
    """Whether a call says that the destination is unwell: it cannot be reached, does not answer, or answers with its own fault.

    A refusal is about one message: the destination is well. None where the call tells nothing.
    """
    if isinstance(outcome, Blocked) or (isinstance(outcome, Retry | Unknown | Rejected) and outcome.blameless):
        return None
    return isinstance(outcome, Retry | Unknown)


@dataclass
class Samples:
    """One worker process's samples. Thread-safe. Nothing is kept of a destination of which no call has failed."""

    policy: BreakerPolicy
    clock: Callable[[], float] = time.monotonic
    _calls: OrderedDict[UUID, deque[tuple[float, bool]]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def note(self, destination: UUID, outcome: Outcome) -> bool:
        """Note what a call came to; whether the breaker is to open now."""
        failed = counts_against_health(outcome)
        if failed is None or self.policy.share == 0:
            return False
        now = self.clock()
        with self._lock:
            calls = self._calls.get(destination)
            if calls is None:
                if not failed:
                    return False
                calls = self._calls[destination] = deque(maxlen=MOST_CALLS)
                if len(self._calls) > MOST_DESTINATIONS:
                    self._calls.popitem(last=False)
            self._calls.move_to_end(destination)
            calls.append((now, failed))
            while calls[0][0] <= now - self.policy.window:
                calls.popleft()
            failures = sum(bad for _, bad in calls)
            if not failures:
                del self._calls[destination]
                return False
            if not failed or len(calls) < self.policy.calls or failures < self.policy.share * len(calls):
                return False
            # Judged: what comes after is another sample.
            del self._calls[destination]
            return True

"""Whether a worker process gets on: not that it exists, but that it finishes something, or has nothing to do and asks for it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Progress:
    """One process's, noted at every look of its watch. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._finished = 0
        self._at = clock()

    def note(self, *, finished: int, idle: bool, looked_at: float | None) -> None:
        """Note how many tasks have ended so far, whether it waits for one and asks the broker for it, and when its scan looked
        last, by the same clock.
        """
        if idle or finished != self._finished:
            self._at = self._clock()
        self._finished = finished
        if looked_at is not None:
            self._at = max(self._at, looked_at)

    def age(self) -> float:
        """Seconds since it last got on."""
        return max(0.0, self._clock() - self._at)

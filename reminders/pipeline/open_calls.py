"""The calls that one process has under way: how many are slow, and to whom another may begin.

Destinations that are not known to answer, all together, never get the last quarter of the slots: however many of them
hang, calls to those that do answer go on.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from threading import Lock
from uuid import UUID

from reminders.domain.slow_calls import SLOW_AFTER

REMEMBERED = 10_000
"""Destinations that are remembered to answer; some 2 MB."""


class OpenCalls:
    """Thread-safe. Without `limit` every call may begin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        # In the order in which they began: what is slow stands in front.
        self._open: dict[object, tuple[float, bool]] = {}
        self._answering: OrderedDict[UUID, None] = OrderedDict()
        self._doubtful_at_most: int | None = None

    def limit(self, slots: int, slow: int) -> None:
        """This process has `slots` threads for calls that are not slow, and `slow` more for those that are."""
        self._doubtful_at_most = slots + slow - slots // 4

    def slow(self) -> int:
        """How many calls have been under way for longer than `SLOW_AFTER`."""
        with self._lock:
            return self._slow()

    def place(self, destination: UUID) -> AbstractContextManager[None] | None:
        """A block for one call to `destination`; None if there is no room for it now, since so many hang.

        Known to answer is who answered the last call that this process made there, before it was slow.
        """
        with self._lock:
            doubtful = destination not in self._answering
            if doubtful and self._crowded():
                return None
            mark = object()
            self._open[mark] = self._clock(), doubtful
        return self._until_it_ends(mark, destination)

    @contextmanager
    def _until_it_ends(self, mark: object, destination: UUID) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                began, _ = self._open.pop(mark)
                self._note(destination, answers=self._clock() - began < SLOW_AFTER)

    def _crowded(self) -> bool:
        if self._doubtful_at_most is None or len(self._open) < self._doubtful_at_most:
            return False
        slow = self._slow()
        young = list(self._open.values())[slow:]
        return slow + sum(doubtful for _, doubtful in young) >= self._doubtful_at_most

    def _slow(self) -> int:
        before = self._clock() - SLOW_AFTER
        return sum(1 for _ in takewhile(lambda call: call[0] <= before, self._open.values()))

    def _note(self, destination: UUID, *, answers: bool) -> None:
        if answers:
            self._answering[destination] = None
            self._answering.move_to_end(destination)
            if len(self._answering) > REMEMBERED:
                self._answering.popitem(last=False)
        else:
            self._answering.pop(destination, None)


open_calls = OpenCalls()
"""This process's own."""

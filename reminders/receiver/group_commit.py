"""Many small transactions in one write to the disk.

A commit that survives a power cut costs the disk about a millisecond. Deliveries that arrive together therefore share
one; none of them is answered before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from reminders.receiver.store import Store

T = TypeVar("T")
_LARGEST_GROUP = 256


class GroupCommit:
    """Runs work on `store` on the running event loop, everything that waits at one time in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns, once it is committed. Raises what the store raises; then nothing of it is stored."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._commit)
        return await done

    def _commit(self) -> None:
        group, self._waiting = self._waiting[:_LARGEST_GROUP], self._waiting[_LARGEST_GROUP:]
        if self._waiting:
            self._loop.call_soon(self._commit)
        try:
            with self._store.transaction():
                results = [work() for work, _ in group]
        except Exception as error:  # noqa: BLE001 (each of the group hears of it)
            for _, done in group:
                if not done.done():
                    done.set_exception(error)
            return
        for (_, done), result in zip(group, results, strict=True):
            if not done.done():
                done.set_result(result)

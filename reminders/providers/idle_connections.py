"""Connections that are kept open between calls, shared by all threads of a process."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Reusable(Protocol):
    """What this store needs of a connection."""

    def is_quiet(self) -> bool:
        """Whether it is open and nothing was received on it meanwhile: no bytes, no close."""

    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Reusable)


class IdleConnections(Generic[ConnectionT]):
    """Keeps at most `limit` connections in all. The newest of an origin is used first, so that surplus ones age.

    A forked child begins without any: its parent goes on using those that it has.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        # A new one in a child, too: in the moment of the fork another thread may have held it.
        self._lock = threading.Lock()
        self._by_origin: dict[Hashable, list[tuple[ConnectionT, float]]] = {}
        self._oldest_first: OrderedDict[int, Hashable] = OrderedDict()

    def take(self, origin: Hashable) -> ConnectionT | None:
        """A connection to `origin` that is still open, or None. It belongs to the caller until it is kept again.

        One that the far side closed meanwhile is closed here and never returned: a request written to it would be
        lost, and nobody could say whether it was.
        """
        if os.getpid() != self._pid:
            self._begin()
        while True:
            with self._lock:
                connections = self._by_origin.get(origin)
                if not connections:
                    return None
                connection, good_until = connections.pop()
                if not connections:
                    del self._by_origin[origin]
                del self._oldest_first[id(connection)]
            if time.monotonic() < good_until and connection.is_quiet():
                return connection
            connection.close()

    def keep(self, origin: Hashable, connection: ConnectionT, seconds: float) -> None:
        """Keep `connection`, which no call is using, for at most `seconds`. Over the limit the oldest one goes."""
        surplus: ConnectionT | None = None
        with self._lock:
            self._by_origin.setdefault(origin, []).append((connection, time.monotonic() + seconds))
            self._oldest_first[id(connection)] = origin
            if len(self._oldest_first) > self._limit:
                _, stale_origin = self._oldest_first.popitem(last=False)
                # Within one origin the list is in order of age, so its first is the oldest of all.
                surplus, _ = self._by_origin[stale_origin].pop(0)
                if not self._by_origin[stale_origin]:
                    del self._by_origin[stale_origin]
        if surplus is not None:
            surplus.close()

"""A pool whose idle connections are given up together: what has ended one of them has ended all."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import PoolProxiedConnection

_ERA = "era"


class Living:
    """The connections of `engine` that were opened since one of them was last given up. Thread-safe.

    The pool itself stays. (`Engine.dispose` makes another, and takes from the old one what its waiters have just been woken
    for: they would wait there for the whole `pool_timeout`, with what they have claimed.)
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._era = object()
        event.listen(engine, "connect", self._stamp)

    def take(self) -> PoolProxiedConnection:
        """One of them, or a new one. Raises what the driver and the pool raise."""
        connection = self._engine.raw_connection()
        while connection.info.get(_ERA) is not self._era:
            connection.invalidate()
            connection.close()
            connection = self._engine.raw_connection()
        return connection

    def give_up(self, connection: PoolProxiedConnection) -> None:
        """This one is lost, and with it those that were opened before: one failure, not one per connection."""
        if connection.info.get(_ERA) is self._era:
            self._era = object()
        connection.invalidate()

    def _stamp(self, _driver: Any, record: Any) -> None:
        record.info[_ERA] = self._era

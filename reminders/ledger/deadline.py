"""A time by which a server that is frozen, not gone, must have answered: its kernel keeps the connection up, and no time-out ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from weakref import WeakSet

import psycopg2
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

_AGAIN_AFTER = 0.5


class Deadline:
    """Of the connections of one pool, as far as they are added."""

    def __init__(self) -> None:
        self._connections: WeakSet[DriverConnection] = WeakSet()
        self._changing = Lock()
        self.passed = Event()

    def add(self, driver: DriverConnection, _record: object = None) -> None:
        with self._changing:
            self._connections.add(driver)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Cut every connection off if the block lasts longer: whoever waits for an answer gets psycopg2's word that it is lost."""
        done = Event()
        self.passed.clear()

        def watch() -> None:
            wait = seconds
            while not done.wait(wait):
                self.passed.set()
                self._cut_off()
                wait = _AGAIN_AFTER

        watching = Thread(target=watch, name="deadline", daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()
            self.passed.clear()

    def _cut_off(self) -> None:
        with self._changing:
            open_ones = list(self._connections)
        for driver in open_ones:
            # The socket alone: libpq's own functions belong to the thread that waits.
            with suppress(psycopg2.InterfaceError, OSError), socket.socket(fileno=os.dup(driver.fileno())) as ours:
                ours.shutdown(socket.SHUT_RDWR)

"""A connection that works while we compute: Postgres runs one statement, the caller reads and checks the next rows.

A thread does the same 10 to 25 % slower, as measured: the interpreter's lock is handed over late each time Postgres
has answered, and the rows wander between the processors' caches.
"""

from __future__ import annotations

import time
from select import POLLIN, POLLOUT, poll
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.ledger.database import CONNECT_TIMEOUT, INDEXES_ONLY, Database, Row
from reminders.ledger.statement import Statement


class BackgroundConnection:
    """One connection, apart from the pool, for one statement at a time, each in a transaction of its own.

    It opens on first use and again after any failure. Everything raises `DATABASE_AWAY` errors as `Database` does, and
    also one when Postgres has not answered for `patience` seconds; row locks are waited for half as long.
    """

    def __init__(self, database: Database, *, patience: float) -> None:
        self._bound = database.bound
        _, options = database.url.get_dialect()().create_connect_args(database.url)
        self._options = {**options, "application_name": "reminders-import", "async_": True}
        self._patience = patience
        self._preamble = f"{INDEXES_ONLY}SET LOCAL lock_timeout = {int(patience * 500)}; "
        self._connection: DriverConnection | None = None

    def send(self, statement: Statement, **given: Any) -> None:
        """Hand a statement to Postgres. It is under way when this returns; `result` must follow."""
        bound = self._bound(statement)
        try:
            connection = self._connection or self._connect()
            self._cursor = connection.cursor()
            self._cursor.execute(self._preamble + bound.plain, bound.arguments(given))
            self._wait(connection, self._patience, until_sent=True)
        except BaseException:
            self.close()
            raise

    def result(self) -> list[Row]:
        """The rows of the statement that was sent, which is committed then."""
        assert self._connection is not None
        try:
            self._wait(self._connection, self._patience)
            return self._cursor.fetchall()
        except BaseException:
            self.close()
            raise

    def fetch(self, statement: Statement, **given: Any) -> list[Row]:
        """Both at once."""
        self.send(statement, **given)
        return self.result()

    def close(self) -> None:
        """Also gives up on a statement that is under way: it may yet be committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> DriverConnection:
        self._connection = psycopg2.connect(**self._options)
        self._wait(self._connection, CONNECT_TIMEOUT)
        return self._connection

    def _wait(self, connection: DriverConnection, seconds: float, *, until_sent: bool = False) -> None:
        give_up_at = time.monotonic() + seconds
        while (state := connection.poll()) != POLL_OK:
            reading = state == POLL_READ
            if reading and until_sent:
                return
            remaining = give_up_at - time.monotonic()
            if remaining <= 0:
                raise psycopg2.OperationalError(f"no answer within {seconds:g} s")
            number = connection.fileno()
            # Not `select`, which cannot watch a descriptor above 1023: an application may have more open.
            waiting = poll()
            waiting.register(number, POLLIN if reading else POLLOUT)
            waiting.poll(remaining * 1000)

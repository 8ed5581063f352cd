"""The machine's own ways to Postgres, kept open from one example to the next."""

from __future__ import annotations

from typing import Any

import psycopg2
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

from reminders.ledger.database import Database


class ModelDatabase:
    """`product` is what the product's code gets, one connection, since one process runs at a time; `sql` looks on; callers
    are applications."""

    def __init__(self, url: str) -> None:
        self.product = Database(url, schema="reminders", pool_size=1)
        self._watcher = self._connect()
        self._watcher.autocommit = True
        self._idle: list[Any] = []
        self.beginning: Any = None
        self.dump: str | None = None
        """How the first example found the database, and every other one must."""

    def sql(self, query: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own."""
        with self._watcher.cursor() as cursor:
            cursor.execute(query, arguments)
            return list(cursor.fetchall()) if cursor.description else []

    def take_caller(self) -> Any:
        """An application's connection."""
        return self._idle.pop() if self._idle else self._connect()

    def give_caller_back(self, connection: Any) -> None:
        self._idle.append(connection)

    def wake_idle_connections(self) -> None:
        """Let them hear of tables that were emptied: one that idles on would catch up in a transaction of its own, some time."""
        for connection in self._idle:
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT")

    def close(self) -> None:
        for connection in (self._watcher, *self._idle):
            connection.close()
        self.product.close()

    def _connect(self) -> Any:
        _, given = PGDialect_psycopg2().create_connect_args(self.product.url)
        return psycopg2.connect(**given)

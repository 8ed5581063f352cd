"""The machine's own ways to Postgres, kept open from one example to the next."""

from __future__ import annotations

from typing import Any

import psycopg2
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

from reminders.ledger.database import Database


class ModelDatabase:
    """`product` is the pool that the product's code gets; `sql` looks on; callers are applications."""

    def __init__(self, url: str) -> None:
        self.product = Database(url, schema="reminders", pool_size=20)
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

    def forget_connections(self) -> None:
        """Begin the next example without any but the machine's own: a connection remembers plans, and one that idles while
        tables come and go catches up with that in transactions of its own, whenever it likes."""
        while self._idle:
            self._idle.pop().close()
        self.product.close()

    def close(self) -> None:
        self.forget_connections()
        self._watcher.close()

    def _connect(self) -> Any:
        _, given = PGDialect_psycopg2().create_connect_args(self.product.url)
        return psycopg2.connect(**given)

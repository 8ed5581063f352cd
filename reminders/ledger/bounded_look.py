"""A look that an operator takes while everything runs: read only, from one snapshot at a time, and broken off if it takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, LOOPS_ONLY, Database, Row
from reminders.ledger.statement import Statement

STATEMENT_SECONDS = 10
"""After which Postgres breaks a statement off."""

Ask = Callable[..., list[Row]]


@contextmanager
def looking(database: Database) -> Iterator[Ask]:
    """A function that runs a statement; each joins few rows to large tables, by their keys, whatever is estimated.

    It takes the values of parameters by name, those that the statement does not have too.
    """
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'; SET LOCAL jit = off; "
                f"{INDEXES_ONLY}{LOOPS_ONLY}"
            )

        def ask(statement: Statement, **given: Any) -> list[Row]:
            return fetch(connection, database.schema, statement, **given)

        yield ask

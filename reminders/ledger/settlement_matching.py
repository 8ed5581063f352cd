"""The application's own queries for its orders, on the connection of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from psycopg2.extensions import TRANSACTION_STATUS_INTRANS
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming
from psycopg2.extensions import cursor as DriverCursor  # noqa: N812

from reminders.ledger.statement import Statement

TYPES = {"references": "text[]", "before": "timestamptz", "after": "text", "limit": "integer"}


def run_query(connection: DriverConnection, sql: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a query with parameters of `TYPES`, written `:name`; each by the names of its columns.

    It can only read: whatever would write, in functions too, raises psycopg2's `ReadOnlySqlTransaction`.
    """
    used = {name: kind for name, kind in TYPES.items() if re.search(rf"(?<![:\w]):{name}\b", sql)}
    bound = Statement("matcher", sql, used).in_schema("{s}")
    with connection.cursor(cursor_factory=DriverCursor) as cursor:
        # The page's transaction writes again afterwards: the end of a savepoint takes back what was set in it.
        cursor.execute("SAVEPOINT matcher_query; SET LOCAL transaction_read_only = on")
        cursor.execute(bound.plain, bound.arguments(given))
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        if is_open(connection):
            cursor.execute("ROLLBACK TO SAVEPOINT matcher_query; RELEASE SAVEPOINT matcher_query")
        return rows


def is_open(connection: DriverConnection) -> bool:
    """Whether the page's transaction still is what it was: neither ended nor failed."""
    return bool(connection.info.transaction_status == TRANSACTION_STATUS_INTRANS)

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
    """The rows of a query with parameters of `TYPES`, written `:name`; each by the names of its columns."""
    used = {name: kind for name, kind in TYPES.items() if re.search(rf"(?<![:\w]):{name}\b", sql)}
    bound = Statement("matcher", sql, used).in_schema("{s}")
    with connection.cursor(cursor_factory=DriverCursor) as cursor:
        cursor.execute(bound.plain, bound.arguments(given))
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def is_open(connection: DriverConnection) -> bool:
    """Whether the page's transaction still is what it was: neither ended nor failed."""
    return bool(connection.info.transaction_status == TRANSACTION_STATUS_INTRANS)

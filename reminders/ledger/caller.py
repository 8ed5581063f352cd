"""Running a statement on the caller's own connection, inside the caller's own transaction.

Nothing here commits, rolls back, opens a connection or changes the session.
"""

from __future__ import annotations

from typing import Any

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from reminders.domain.errors import InvalidInput
from reminders.ledger.statement import Statement

CallersConnection = Session | Connection | DriverConnection


def fetch(connection: CallersConnection, schema: str, statement: Statement, **given: Any) -> list[tuple[Any, ...]]:
    """Run `statement` as part of the caller's transaction and return its rows."""
    bound = statement.in_schema(schema)
    arguments = bound.arguments(given)
    if isinstance(connection, Session):
        connection = connection.connection()
    if isinstance(connection, Connection):
        return [tuple(row) for row in connection.exec_driver_sql(bound.plain, arguments)]
    if isinstance(connection, DriverConnection):
        with connection.cursor() as cursor:
            cursor.execute(bound.plain, arguments)
            return [tuple(row) for row in cursor.fetchall()]
    raise InvalidInput(
        "connection",
        f"must be a SQLAlchemy Session or Connection or a psycopg2 connection, not {type(connection).__name__}",
    )

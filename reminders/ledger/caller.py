"""Running a statement on the caller's own connection, inside the caller's own transaction.

Nothing here commits, rolls back, opens a connection or changes the session.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg2
from psycopg2 import errors
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming
from psycopg2.extensions import cursor as DriverCursor  # noqa: N812
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from reminders.domain.errors import InvalidInput
from reminders.ledger.statement import Statement

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

CallersConnection: TypeAlias = (
    "Session | scoped_session[Session] | Connection | DriverConnection | PoolProxiedConnection"
)


_NOT_MIGRATED = (errors.InvalidSchemaName, errors.UndefinedFunction, errors.UndefinedTable, errors.UndefinedColumn)


def fetch(connection: CallersConnection, schema: str, statement: Statement, **given: Any) -> list[tuple[Any, ...]]:
    """Run `statement` as part of the caller's transaction and return its rows.

    Where the ledger is not in this database, or is older than this release, what Postgres raises has a note that says so.
    """
    try:
        return _fetch(connection, schema, statement, given)
    except (psycopg2.Error, DBAPIError) as error:
        if isinstance(error.orig if isinstance(error, DBAPIError) else error, _NOT_MIGRATED):
            error.add_note(
                f"The ledger (schema {schema!r}) is not in the database of this connection, or is older than this release: "
                "run `reminders migrate` with its DATABASE_URL."
            )
        raise


def _fetch(
    connection: CallersConnection, schema: str, statement: Statement, given: dict[str, Any]
) -> list[tuple[Any, ...]]:
    bound = statement.in_schema(schema)
    arguments = bound.arguments(given)
    # Whoever has a Session has imported it. Our own processes have none, and save 6 MB each.
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        connection = connection.connection()
    if isinstance(connection, Connection):
        return [tuple(row) for row in connection.exec_driver_sql(bound.plain, arguments)]
    if isinstance(connection, PoolProxiedConnection):
        connection = connection.driver_connection  # type: ignore[assignment]
    if isinstance(connection, DriverConnection):
        # The plain cursor: the connection's own factory may give rows that are no tuples.
        with connection.cursor(cursor_factory=DriverCursor) as cursor:
            cursor.execute(bound.plain, arguments)
            return [tuple(row) for row in cursor.fetchall()]
    raise InvalidInput(
        "connection",
        f"must be a SQLAlchemy Session or Connection or a psycopg2 connection, not {type(connection).__name__}",
    )

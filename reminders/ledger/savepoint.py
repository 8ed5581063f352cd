"""A part of a transaction that may be undone without the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming


@contextmanager
def savepoint(connection: DriverConnection) -> Iterator[None]:
    """What the block wrote is undone if it raises; the transaction goes on either way."""
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT part")
        try:
            yield
        except Exception:
            cursor.execute("ROLLBACK TO SAVEPOINT part")
            raise
        finally:
            if not connection.closed:
                cursor.execute("RELEASE SAVEPOINT part")

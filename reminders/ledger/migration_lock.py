"""One migrator at a time, across hosts, behind poolers, and without standing in the way of an index that is being built."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from reminders.domain.errors import ServiceUnavailable

LONGEST_WAIT = 20 * 60.0
"""Seconds to wait for another migrator: longer than the longest single statement of a migration may take."""
_LOOK_EVERY = 0.5
_KEY = "hashtext('reminders-migrate')"
# What the server may have set against idle transactions would end the one that holds the lock, in the middle of a
# migration. `transaction_timeout` exists from Postgres 17 on.
_HOLDS_AS_LONG_AS_IT_TAKES = """SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"""

logger = logging.getLogger(__name__)


@contextmanager
def one_at_a_time(engine: Engine, wait: float) -> Iterator[Connection]:
    """Hold the lock of all migrators of this database, on a connection of its own, and give that connection.

    The lock belongs to a transaction, since a transaction pooler hands a session to others in between. It stands idle
    under READ COMMITTED, which keeps no snapshot; and who waits asks again and again in transactions of their own. A
    migrator that waited inside `pg_advisory_xact_lock` would keep a snapshot, for whose end CREATE INDEX CONCURRENTLY
    waits, and so each would wait for the other. Raises `ServiceUnavailable` after `wait` seconds.
    """
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        end = time.monotonic() + wait
        told = False
        while not _taken(connection):
            if time.monotonic() >= end:
                raise ServiceUnavailable(
                    f"Another `reminders migrate` has been at work on this database for {wait:g} s.\n"
                    "Let it end, or end it (application_name 'reminders-migrate' in pg_stat_activity); then run this again."
                )
            if not told:
                logger.info("migrate.waiting: another migrator is at work on this database")
                told = True
            time.sleep(_LOOK_EVERY)
        yield connection


def require_still_held(connection: Connection) -> None:
    """Raise `ServiceUnavailable` if the connection that held the lock, and with it the lock, is gone."""
    try:
        connection.exec_driver_sql("SELECT 1")
    except SQLAlchemyError as error:
        raise ServiceUnavailable(
            "The connection that kept other migrators out was cut off; what was under way was not committed.\n"
            "Run `reminders migrate` again: it goes on where this one stopped."
        ) from error


def _taken(connection: Connection) -> bool:
    connection.exec_driver_sql(_HOLDS_AS_LONG_AS_IT_TAKES)
    if connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_KEY})").scalar_one():
        return True
    connection.rollback()
    return False

"""A ledger alone for a benchmark: an embedded Postgres of its own, migrated, and the processor time that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions


@contextmanager
def ledger() -> Iterator[Database]:
    """Empty, with the coming months' partitions; gone after the block."""
    with throwaway_home("benchmark") as home, running(home, redis=False) as services:
        migrate(services.database_url, "reminders")
        database = Database(services.database_url, schema="reminders")
        make_partitions(database)
        try:
            yield database
        finally:
            database.close()


def postgres_seconds(database: Database) -> float:
    """Processor seconds so far of the server and all its processes, those that have ended included."""
    with database.transaction() as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    own = server.cpu_times()
    living = sum(sum(child.cpu_times()[:2]) for child in server.children())
    return own.user + own.system + own.children_user + own.children_system + living

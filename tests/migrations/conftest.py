"""Databases of their own on the run's Postgres: a migration test must not touch the ledger the other tests share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count

import psycopg2
import pytest
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.embedded import Services
from reminders.ledger.database import driver_url
from reminders.ledger.migrations import migrate

MIGRATE = "import sys; from reminders.ledger.migrations import migrate; print(migrate(sys.argv[1], 'reminders')[1])"
# A connection's first ROLLBACK is the driver's own; a later one has asked for the lock in vain. Waiting inside the lock, which
# none of them should, counts as well, so that a test fails by what comes of it.
ASKING = """SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'reminders-migrate' AND datname = current_database()
  AND (query = 'ROLLBACK' AND query_start > backend_start + interval '1 second' OR query LIKE '%pg_advisory_xact_lock%')"""
OLD_REMINDER = """
WITH made AS (
    INSERT INTO reminders.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates,
                                     due_at, expires_at, identity_key, request_hash, delivery_key)
    SELECT id, 't', 'u', 'k', 'log', 'd', gen_random_uuid(), true, {due}, {ends}, sha256(uuid_send(id)),
           sha256(uuid_send(id)), id::text
    FROM gen_random_uuid() AS id
    RETURNING id, delivery_key
)
INSERT INTO reminders.due (id, lane, wake_at, status, delivery_key, lease_token, published_at)
SELECT id, 't', {wakes}, '{status}', delivery_key, CASE WHEN '{status}' IN ('leased', 'published') THEN id END,
       CASE WHEN '{status}' = 'published' THEN now() END
FROM made RETURNING id::text"""
_numbers = count()


def run(url: str, query: str) -> list[tuple]:
    connection = psycopg2.connect(_libpq(url))
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


@pytest.fixture
def query() -> Callable[[str, str], list[tuple]]:
    """Run one statement at a URL."""
    return run


@pytest.fixture
def empty_database(services: Services) -> Iterator[str]:
    """The URL of a database that nobody has used."""
    name = f"migrations_{next(_numbers)}"
    run(services.database_url, f"CREATE DATABASE {name}")
    yield driver_url(services.database_url).set(database=name).render_as_string(hide_password=False)
    run(services.database_url, f"DROP DATABASE {name} WITH (FORCE)")


@dataclass
class LiveLedger:
    """A database whose ledger is used while it is migrated."""

    url: str
    _stack: ExitStack

    def query(self, query: str) -> list[tuple]:
        return run(self.url, query)

    @property
    def name(self) -> str:
        """The database's name."""
        return str(driver_url(self.url).database)

    def old_reminder(
        self, *, status: str = "pending", wakes: str = "now()", ends: str | None = None, due: str = "now()"
    ) -> str:
        """A live reminder as the release of migration 0001 wrote it, instants as SQL; its id."""
        ((made,),) = self.query(OLD_REMINDER.format(status=status, wakes=wakes, ends=ends or "NULL", due=due))
        return made

    def writer(self) -> DriverConnection:
        """An application's transaction that has written the table of what is due, as the release of 0001 does."""
        connection = self.application()
        with connection.cursor() as cursor:
            cursor.execute(OLD_REMINDER.format(status="pending", wakes="now()", ends="NULL", due="now()"))
        return connection

    def application(self) -> DriverConnection:
        """An application's connection; its transaction stays open until the test ends it."""
        return self._stack.enter_context(closing(psycopg2.connect(_libpq(self.url))))

    @contextmanager
    def migrating(self, revision: str = "head") -> Iterator[Future[tuple[str | None, str | None]]]:
        """`migrate` in a thread; a test that fails meanwhile ends the transactions that it waits for."""
        with ThreadPoolExecutor(1) as pool:
            try:
                yield pool.submit(migrate, self.url, "reminders", revision)
            except BaseException:
                self._stack.close()
                raise

    def migrator(self) -> subprocess.Popen[str]:
        """`migrate` in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-c", MIGRATE, self.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._stack.callback(_end, process)
        return process

    def until_asking(self, migrators: int) -> None:
        """Wait until so many migrators have asked for the lock and must wait."""
        self.until(ASKING, migrators)

    def until(self, query: str, expected: object) -> None:
        """Wait until the query's only value is so."""
        end = time.monotonic() + 30
        while (found := self.query(query)) != [(expected,)]:
            assert time.monotonic() < end, f"{query}: {found}"
            time.sleep(0.02)


def _libpq(url: str) -> str:
    return driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def live(empty_database: str) -> Iterator[LiveLedger]:
    with ExitStack() as stack:
        yield LiveLedger(empty_database, stack)

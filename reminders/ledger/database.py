"""Our own connections: a small pool, autocommit, one round trip per statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg2
import psycopg2.errors
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_UNKNOWN
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming
from sqlalchemy import URL, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import PoolProxiedConnection

from reminders.domain.errors import ServiceUnavailable, SettingsError
from reminders.ledger.deadline import Deadline
from reminders.ledger.living import Living
from reminders.ledger.statement import BoundStatement, Statement

Row = tuple[Any, ...]
INDEXES_ONLY = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; "
"""Sent along with every statement of ours, at no extra round trip. A plan made while a table is empty (a fresh
installation), or while the statistics have not seen a burst yet, otherwise reads or sorts the whole table, and a
prepared statement keeps that plan."""
LOOPS_ONLY = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL plan_cache_mode = force_generic_plan; "
"""Besides, where an estimate is far from the truth: a hash join would read a whole table through its index. Nor is such a
statement planned anew for the number of rows that it is about: that costs more than it does, and gains nothing here."""
MARK = "ROW SHARE MODE"
"""Of `fetch_marked`: nothing but a change of the table's shape waits for it, or makes it wait."""
CONNECT_TIMEOUT = 5
"""Seconds to wait for Postgres to answer a new connection."""

DATABASE_AWAY: tuple[type[Exception], ...] = (
    psycopg2.OperationalError,
    psycopg2.InterfaceError,
    psycopg2.errors.ReadOnlySqlTransaction,
)
"""Raised while Postgres is down, restarting, read-only, out of connections or cut off; for deadlocks and lock time-outs."""
ROLLED_BACK: tuple[type[Exception], ...] = (
    psycopg2.extensions.TransactionRollbackError,
    psycopg2.errors.QueryCanceled,
    psycopg2.errors.LockNotAvailable,
)
"""Those of them with which Postgres ends one transaction, of which nothing is committed, and goes on with all others."""
NOTICE_SILENCE = {
    "connect_timeout": CONNECT_TIMEOUT,
    # A host that vanished without closing its connections is noticed within half a minute, not two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
LONGEST_IDLE = "30s"
"""How long a transaction of ours may stand still: a process frozen inside one must not keep its rows locked."""
_BEGIN = f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_IDLE}'; "
LockNotAvailable = psycopg2.errors.LockNotAvailable


def driver_url(text: str) -> URL:
    """A Postgres URL as SQLAlchemy needs it: `postgres://` and driverless forms name psycopg2; the rest is kept."""
    try:
        url = make_url(re.sub(r"^postgres(ql)?(\+psycopg2)?://", "postgresql+psycopg2://", text))
    except (ArgumentError, ValueError):
        raise SettingsError("DATABASE_URL: is not a URL; write postgresql://user:password@host:5432/name") from None
    if url.drivername != "postgresql+psycopg2":
        raise SettingsError(f"DATABASE_URL: names {url.drivername!r}; only postgresql:// and postgres:// are supported")
    return url


class Database:
    """The pool of one process. Connections open on first use, so a fork before that is harmless.

    With `patience_ms`, no statement waits longer than that for another transaction's lock, unless it says otherwise
    itself; `LockNotAvailable` is raised then. Without it, waiting has no end.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        pool_size: int = 5,
        application_name: str = "reminders",
        patience_ms: int | None = None,
    ) -> None:
        self.schema = schema
        self.url = driver_url(url)
        # Local to each transaction: behind a pooler a setting of the session would be somebody else's next.
        self._patience = "" if patience_ms is None else f"SET LOCAL lock_timeout = {int(patience_ms)}; "
        self._bound: dict[str, BoundStatement] = {}
        self._may_prepare = True
        self._engine = create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=0,
            pool_use_lifo=True,
            pool_reset_on_return=None,
            pool_timeout=30,
            connect_args={**NOTICE_SILENCE, "application_name": application_name},
        )
        event.listen(self._engine, "connect", _autocommit)
        self._living = Living(self._engine)
        self._deadline = Deadline()
        event.listen(self._engine, "connect", self._deadline.add)

    def answering_within(self, seconds: float) -> AbstractContextManager[None]:
        """For a block whose every statement must have been answered by then, also by a server that is frozen: a lost connection is
        raised otherwise, some seconds later at most where one had to be opened. Not for a pool that other threads use as well.
        """
        return self._deadline.within(seconds)

    def close(self) -> None:
        self._engine.dispose()

    def forget_after_fork(self) -> None:
        """Drop the parent's connections without closing them for the parent."""
        self._engine.dispose(close=False)

    def fetch(self, statement: Statement, **given: Any) -> list[Row]:
        """Run one statement in a transaction of its own, prepared where that is possible."""
        with self._connection() as connection:
            return self._run(connection, statement, given, preamble=INDEXES_ONLY)

    def fetch_within(
        self, lock_timeout_ms: int, statement: Statement, *, in_loops: bool = False, **given: Any
    ) -> list[Row]:
        """The same, waiting for row locks at most so long; raises `LockNotAvailable` beyond it. Still one round trip.

        `in_loops`: as `fetch_in_loops` does.
        """
        with self._connection() as connection:
            return self._run(
                connection,
                statement,
                given,
                preamble=f"{INDEXES_ONLY}{LOOPS_ONLY if in_loops else ''}SET LOCAL lock_timeout = {int(lock_timeout_ms)}; ",
            )

    def fetch_in_loops(self, statement: Statement, **given: Any) -> list[Row]:
        """The same as `fetch`, for a statement that joins few rows to large tables: each by its key, whatever is estimated."""
        with self._connection() as connection:
            return self._run(connection, statement, given, preamble=INDEXES_ONLY + LOOPS_ONLY)

    def fetch_marked(self, table: str, lock_timeout_ms: int, statement: Statement, **given: Any) -> list[Row]:
        """The same as `fetch_in_loops`, visible to `under_way` on that table from before the statement looks until it has committed.

        The mark is a table lock that no other statement of ours waits for; taking it needs no snapshot, so that what the
        statement sees is never older than its mark. The statement waits for locks at most so long, and raises
        `LockNotAvailable` beyond it. Still one round trip.
        """
        with self._connection() as connection:
            mark = f"LOCK TABLE {self.schema}.{table} IN {MARK}; SET LOCAL lock_timeout = {int(lock_timeout_ms)}; "
            return self._run(connection, statement, given, preamble=INDEXES_ONLY + LOOPS_ONLY + mark)

    def fetch_together(self, preamble: str, *steps: tuple[Statement, Mapping[str, Any]]) -> list[Row]:
        """Run several statements in one transaction and one round trip; the rows of the last one.

        It commits before we hear of it: what they lock is never held while this process waits for the machine, or is frozen.
        `preamble` is SQL that goes before them. They are not prepared.
        """
        with self._connection() as connection:
            cursor = _driver(connection).cursor()
            message = [(self._patience + preamble).encode()]
            for statement, given in steps:
                bound = self.bound(statement)
                message.append(cursor.mogrify(bound.plain, bound.arguments(given)))
            cursor.execute(b"; ".join(message))
            return cursor.fetchall()

    @contextmanager
    def transaction(self) -> Iterator[DriverConnection]:
        """A connection inside BEGIN and COMMIT; rolled back if the block raises."""
        with self._connection(begin=True) as connection:
            driver = _driver(connection)
            try:
                yield driver
                # A time limit of the transaction's own may end this statement too.
                driver.cursor().execute("COMMIT")
            except BaseException:
                if not driver.closed:
                    driver.cursor().execute("ROLLBACK")
                raise

    def bound(self, statement: Statement) -> BoundStatement:
        found = self._bound.get(statement.name)
        if found is None:
            found = self._bound[statement.name] = statement.in_schema(self.schema)
        return found

    def _run(
        self, connection: PoolProxiedConnection, statement: Statement, given: dict[str, Any], *, preamble: str
    ) -> list[Row]:
        bound = self.bound(statement)
        arguments = bound.arguments(given)
        preamble = self._patience + preamble
        cursor = _driver(connection).cursor()
        if self._may_prepare:
            prepared = connection.info.setdefault("prepared", set())
            try:
                if bound.name not in prepared:
                    # Its analysis takes the tables' locks too.
                    cursor.execute(preamble + bound.prepare)
                    prepared.add(bound.name)
                cursor.execute(preamble + bound.execute, arguments)
                return cursor.fetchall()
            except (psycopg2.errors.InvalidSqlStatementName, psycopg2.errors.DuplicatePreparedStatement):
                # A transaction pooler gave us another server connection: nothing ran, and plain SQL works there.
                self._may_prepare = False
        cursor.execute(preamble + bound.plain, arguments)
        return cursor.fetchall()

    @contextmanager
    def _connection(self, *, begin: bool = False) -> Iterator[PoolProxiedConnection]:
        connection = self._begun() if begin else self._living.take()
        try:
            with self._noticing_loss(connection):
                yield connection
        finally:
            if _unfinished(connection):
                # Its next user would be inside somebody else's transaction.
                connection.invalidate()
            connection.close()

    def _begun(self) -> PoolProxiedConnection:
        """A connection with a transaction open. One that had died while it was idle is replaced: nothing ran on it."""
        connection = self._living.take()
        try:
            with self._noticing_loss(connection):
                _driver(connection).cursor().execute(_BEGIN + self._patience)
        except DATABASE_AWAY:
            connection.close()
            if self._deadline.passed.is_set():
                raise
            connection = self._living.take()
            try:
                _driver(connection).cursor().execute(_BEGIN + self._patience)
            except BaseException:
                connection.close()
                raise
        return connection

    @contextmanager
    def _noticing_loss(self, connection: PoolProxiedConnection) -> Iterator[None]:
        """Give up a connection that the block finds lost. Raises one of `DATABASE_AWAY` then, whatever psycopg2 says."""
        try:
            yield
        except DATABASE_AWAY as error:
            if isinstance(error, _STALE) or _driver(connection).closed:
                self._living.give_up(connection)
            raise
        except psycopg2.DatabaseError as error:
            # All that Postgres itself says has a class of its own. After the crash of another server process psycopg2
            # reports the lost connection with this one, and goes on to call the connection open.
            if type(error) is not psycopg2.DatabaseError:
                raise
            self._living.give_up(connection)
            raise psycopg2.OperationalError(str(error)) from error


_STALE = (psycopg2.InterfaceError, psycopg2.errors.ReadOnlySqlTransaction)
"""Ends a connection too: after a failover it leads to a node that is read-only and stays so."""


def _driver(connection: PoolProxiedConnection) -> DriverConnection:
    driver = connection.driver_connection
    assert isinstance(driver, DriverConnection)
    return driver


def _unfinished(connection: PoolProxiedConnection) -> bool:
    if not connection.is_valid:
        return False
    return _driver(connection).info.transaction_status not in (TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_UNKNOWN)


def _autocommit(driver: Any, _record: object) -> None:
    driver.autocommit = True


def check_connection(database: Database) -> None:
    """Raise `ServiceUnavailable` with two lines if Postgres does not answer."""
    try:
        with database.transaction():
            pass
    except Exception as error:
        where = database.url.render_as_string(hide_password=True)
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ServiceUnavailable(
            f"Postgres does not answer at {where}: {first}\n"
            "Check DATABASE_URL and that the server is up; with DATABASE_URL unset, reminders starts its own."
        ) from error

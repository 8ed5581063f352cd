"""What a command works with: settings whose addresses are known, and the ledger at the version of this release.

Without `DATABASE_URL` (or `REDIS_URL`, for commands that need the broker) the embedded servers of this home are started
or joined for as long as the command runs, and their ledger is migrated by itself. An installation's own database is
never migrated unasked.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import NoReturn

import click
import psycopg2
import psycopg2.errors
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from reminders.cli.waiting import told_if_slow
from reminders.domain.errors import ServiceUnavailable
from reminders.embedded import running
from reminders.embedded_secret import with_laptop_defaults
from reminders.ledger.database import CONNECT_TIMEOUT, Database, LockNotAvailable, check_connection
from reminders.ledger.schema_version import require_head
from reminders.ledger.status import make_partitions
from reminders.settings import Secret, Settings, load
from reminders.settings_addresses import check_addresses

PATIENCE_MS = 10_000
"""How long each statement of a command waits for an application's open transaction that holds what it needs."""
_REFUSALS = (
    psycopg2.OperationalError,
    psycopg2.InterfaceError,
    psycopg2.InternalError,
    psycopg2.errors.InsufficientPrivilege,
)


@dataclass(frozen=True, slots=True)
class Session:
    """One command's settings, with every address it needs, and its connections to the ledger."""

    settings: Settings
    database: Database

    @contextmanager
    def transaction(self) -> Iterator[DriverConnection]:
        """A transaction that waits for other people's locks for a while, not for ever, as every statement of a command."""
        with self.database.transaction() as connection:
            yield connection

    @contextmanager
    def statement_by_statement(self) -> Iterator[Connection]:
        """A connection on which every statement is its own transaction, for long reading: it keeps no lock in between."""
        engine = create_engine(
            self.database.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": CONNECT_TIMEOUT},
        )
        with engine.connect() as connection:
            yield connection


@dataclass(frozen=True, slots=True)
class Migrated:
    """What bringing a ledger to this release's version did."""

    before: str | None
    after: str | None
    partitions: list[str]


@contextmanager
def session(
    settings: Settings | None = None, *, broker: bool = False, workers_follow: bool = False
) -> Iterator[Session]:
    """Everything a command needs of the ledger, for the block. `settings` are `command_settings()` unless given.

    A ledger that was not there before is mentioned on stderr: in the wrong folder nobody would look for it. With
    `workers_follow` the command itself starts the workers. Raises `SettingsError`; `ServiceUnavailable` if a server cannot be reached or started, if the schema is older than
    this release, or if Postgres fails during the block.
    """
    with located(settings or command_settings(), broker=broker) as (found, embedded):
        assert found.database_url is not None
        url = found.database_url.reveal()
        database = Database(
            url, schema=found.schema, pool_size=2, application_name="reminders-cli", patience_ms=PATIENCE_MS
        )
        try:
            with postgres_faults_explained():
                check_connection(database)
                if embedded:
                    _migrate_if_behind(found, database, workers_follow=workers_follow)
                else:
                    require_head(url, found.schema)
                yield Session(found, database)
        finally:
            database.close()


def command_settings() -> Settings:
    """The environment's settings, with the laptop's defaults where no address is set. Raises `SettingsError`."""
    settings = load()
    check_addresses(settings)
    return with_laptop_defaults(settings)


@contextmanager
def located(settings: Settings, *, broker: bool = False) -> Iterator[tuple[Settings, bool]]:
    """The settings with the addresses of Postgres and, on demand, of Redis; and whether the Postgres is the embedded one."""
    needs_postgres = settings.database_url is None
    needs_redis = broker and settings.redis_url is None
    if not needs_postgres and not needs_redis:
        yield settings, False
        return
    home = settings.home.expanduser().resolve()
    with signals_unwind(), ExitStack() as stack:
        with told_if_slow(f"the embedded servers of {home} are being started, or stopped, here or by another process"):
            services = stack.enter_context(running(settings.home, postgres=needs_postgres, redis=needs_redis))
        found = replace(
            settings,
            database_url=Secret(services.database_url) if needs_postgres else settings.database_url,
            redis_url=Secret(services.redis_url) if needs_redis else settings.redis_url,
        )
        yield found, needs_postgres


def bring_to_head(settings: Settings, database: Database) -> Migrated:
    """Migrate, make the coming months' partitions, and tell the ledger which channels and zones there are.

    Safe to run at any time, and by several at once.
    """
    from reminders.bootstrap import tell_ledger
    from reminders.ledger.migrations import migrate

    assert settings.database_url is not None
    before, after = migrate(settings.database_url.reveal(), settings.schema)
    tell_ledger(settings, database)
    return Migrated(before, after, make_partitions(database))


def _migrate_if_behind(settings: Settings, database: Database, *, workers_follow: bool) -> None:
    assert settings.database_url is not None
    try:
        require_head(settings.database_url.reveal(), settings.schema)
    except ServiceUnavailable:
        with told_if_slow("the ledger is being brought to this release's version, here or by another process"):
            done = bring_to_head(settings, database)
        if done.before is None:
            tell_of_new_ledger(settings, workers_follow=workers_follow)


def tell_of_new_ledger(settings: Settings, *, workers_follow: bool = False) -> None:
    """One line on stderr about an embedded ledger that was just made."""
    more = "" if workers_follow else "; no worker runs here until `reminders up`"
    click.echo(f"started a new ledger in {settings.home.expanduser().resolve()}{more}", err=True)


@contextmanager
def postgres_faults_explained() -> Iterator[None]:
    """Turn what Postgres refuses or breaks off into a `ServiceUnavailable` of two lines. Our own mistakes pass as they are."""
    try:
        yield
    except (psycopg2.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, LockNotAvailable):
            raise ServiceUnavailable(
                "Another transaction holds what this command needs, and did not end in time.\nWhat was under way is undone; try again."
            ) from error
        if not isinstance(cause, _REFUSALS):
            raise
        first = str(cause).strip().partition("\n")[0] or type(cause).__name__
        raise ServiceUnavailable(
            f"Postgres ended or refused the command: {first}\n"
            "It may or may not have taken effect: look with `reminders list` or `reminders status`, then try again."
        ) from error


@contextmanager
def signals_unwind() -> Iterator[None]:
    """End by SIGTERM or SIGHUP in good order, so that what was started for this command is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _exit_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_on(signum: int, _frame: FrameType | None) -> NoReturn:
    # A second one would break off the tidying up that the first has started.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + signum)

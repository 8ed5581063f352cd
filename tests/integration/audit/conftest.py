"""A database of these tests' own, so that they may take its constraints away, and hands to fill it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg2
import pytest

from integration.audit.aging import AgingWorld
from reminders.embedded import Services
from reminders.ledger import finalizing, giving_back
from reminders.ledger.database import Database, driver_url
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from tables import empty

LAST_MONTH = "delivery_attempts_last_month"


def run_once(url: str, statement: str) -> None:
    """On a connection of its own: one that stays open between tests may be ended by a test of another folder."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()


@pytest.fixture(scope="package")
def audit_url(services: Services) -> Iterator[str]:
    """A migrated database with the partitions of last month and of those ahead."""
    run_once(services.database_url, "CREATE DATABASE audited")
    url = driver_url(services.database_url).set(drivername="postgresql", database="audited")
    text = url.render_as_string(hide_password=False)
    migrate(text, "reminders")
    database = Database(text, schema="reminders")
    make_partitions(database)
    this_month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    with database.transaction() as made, made.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE reminders.{LAST_MONTH} PARTITION OF reminders.delivery_attempts FOR VALUES FROM (%s) TO (%s)",
            (this_month.replace(year=this_month.year - 1), this_month),
        )
    database.close()
    yield text
    run_once(services.database_url, "DROP DATABASE audited WITH (FORCE)")


@pytest.fixture(scope="package")
def audit_database(audit_url: str) -> Iterator[Database]:
    """One pool for all these tests: its connections have every statement prepared soon."""
    database = Database(audit_url, schema="reminders", pool_size=40)
    yield database
    database.close()


@pytest.fixture
def world(audit_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgingWorld]:
    """An empty ledger with all its constraints. The end of a claim waits for a caller's lock for 50 ms only."""
    for module in (finalizing, giving_back):
        monkeypatch.setattr(module, "LOCK_TIMEOUT_MS", 50)
    world = AgingWorld(audit_database)
    with audit_database.transaction() as connection, connection.cursor() as cursor:
        empty(cursor)
    world.sql(
        "CREATE UNIQUE INDEX IF NOT EXISTS dead_letters_one_open ON reminders.dead_letters (reminder_id) WHERE state = 'open'"
    )
    world.sql(
        """ALTER TABLE reminders.due DROP CONSTRAINT IF EXISTS due_held_never_wakes,
           ADD CONSTRAINT due_held_never_wakes CHECK ((status = 'held') = (wake_at IS NULL))"""
    )
    yield world
    world.close()

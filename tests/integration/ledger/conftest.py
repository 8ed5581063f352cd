"""The ledger with scripted neighbours. After each test, every status move that Postgres saw must be one we document."""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from integration.ledger import audit
from integration.ledger.series_stage import SeriesStage
from integration.ledger.world import World
from reminders.ledger import claiming, finalizing, giving_back
from reminders.ledger.database import Database, driver_url
from reminders.ledger.status import make_partitions
from tables import empty

KEPT = 4
"""Connections between two tests."""


@pytest.fixture(scope="package")
def audited(migrated: str) -> Iterator[None]:
    """Triggers that note every move of a status, for the tests of this folder.

    Each on a connection of its own: one that stays open meanwhile may be ended by a test of another folder.
    """
    for run in (audit.install, audit.remove):
        connection = psycopg2.connect(migrated)
        connection.autocommit = True
        with connection.cursor() as cursor:
            run(cursor.execute)
        connection.close()
        if run is audit.install:
            yield


@pytest.fixture(scope="package")
def kept_database(migrated: str) -> Iterator[Database]:
    """One pool for all these tests: starting a server process and preparing anew costs more than a short test does itself.

    A statement that waits for a lock for ever ends the test instead of the run.
    """
    url = driver_url(migrated).update_query_dict({"options": "-c statement_timeout=20s"})
    database = Database(url.render_as_string(hide_password=False), schema="reminders", pool_size=40)
    yield database
    database.close()


@pytest.fixture
def database(kept_database: Database) -> Iterator[Database]:
    """An empty ledger. A test that ends connections, leaves one in use or needs many leaves none of them to the next."""
    with kept_database.transaction() as connection, connection.cursor() as cursor:
        empty(cursor)
    # A purge of an earlier test may have dropped a month that held nothing, at a month's end also this one.
    make_partitions(kept_database)
    yield kept_database
    if not _few_and_idle(kept_database._engine.pool):
        kept_database.close()


def _few_and_idle(pool: Any) -> bool:
    """Whether every connection was given back and none of them has heard of its end."""
    waiting = select.poll()
    for record in tuple(pool._pool.queue):
        if record.dbapi_connection is None:
            return False  # given up, and not yet replaced
        waiting.register(record.dbapi_connection, select.POLLIN)
    return pool.checkedout() == 0 and pool.checkedin() <= KEPT and not waiting.poll(0)


@pytest.fixture
def world(audited: None, database) -> Iterator[World]:
    """An empty ledger and its neighbours; at the end no undocumented move may have happened."""
    world = World(database)
    world.sql("DELETE FROM audit.moves")
    yield world
    world.close()
    rows = world.sql("SELECT transaction, sent_at, place, thing, old, new FROM audit.moves ORDER BY number")
    assert audit.strays(rows) == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a claim gives up waiting for a caller's lock after 50 ms instead of half a second."""
    for module in (finalizing, giving_back):
        monkeypatch.setattr(module, "LOCK_TIMEOUT_MS", 50)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim, and its end, wait for whoever holds their rows until the test lets go, on any machine, not half a second."""
    for module in (claiming, finalizing, giving_back):
        monkeypatch.setattr(module, "LOCK_TIMEOUT_MS", 15_000)


@pytest.fixture
def stage(world) -> SeriesStage:
    """The same ledger, with series under a clock of the test's own."""
    return SeriesStage(world)

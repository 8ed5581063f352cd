"""One server process of Postgres is killed: all others end too, and Postgres starts again by itself."""

from __future__ import annotations

import os
import signal
import threading

import psutil
import psycopg2
import pytest

from reminders.embedded import running
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.statement import Statement

PID = Statement("own_pid", "SELECT pg_backend_pid()", {})


@pytest.fixture
def database(home):
    with running(home, redis=False) as services:
        database = Database(services.database_url, schema="reminders", pool_size=2)
        yield database
        database.close()


def idle_connections(database: Database, count: int) -> list[psutil.Process]:
    """Leave so many in the pool; their server processes."""
    if count == 0:
        return []
    with database.transaction() as connection:
        return [*idle_connections(database, count - 1), psutil.Process(connection.info.backend_pid)]


def plain_url(database: Database) -> str:
    return database.url.set(drivername="postgresql").render_as_string(hide_password=False)


def crash(database: Database, others: list[psutil.Process]) -> None:
    victim = psycopg2.connect(plain_url(database))
    os.kill(victim.info.backend_pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(others, timeout=20)
    assert not alive, "Postgres ends every server process after a crash"
    victim.close()


def recovered(url: str) -> None:
    """Return once Postgres takes connections again."""
    pause = threading.Event()
    for _ in range(400):
        try:
            psycopg2.connect(url).close()
        except psycopg2.OperationalError:
            pause.wait(0.05)
        else:
            return
    raise AssertionError("Postgres did not come back")


def test_idle_connections_lost_in_a_crash_count_as_a_database_that_is_away_and_as_one_failure(database):
    idle = idle_connections(database, 2)
    crash(database, idle)
    recovered(plain_url(database))
    with pytest.raises(DATABASE_AWAY):
        database.fetch(PID)
    ((pid,),) = database.fetch(PID)
    assert pid not in {process.pid for process in idle}


def test_a_transaction_on_a_connection_lost_in_a_crash_begins_on_another_one(database):
    idle = idle_connections(database, 2)
    crash(database, idle)
    recovered(plain_url(database))
    with database.transaction() as connection:
        assert connection.info.backend_pid not in {process.pid for process in idle}

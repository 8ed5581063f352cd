"""What tests share: one Postgres and one Redis for the whole run, emptied before each test that asks for them."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import redis
from hypothesis import settings as hypothesis_settings

from descriptors import none_left
from file_order import interleaved
from reminders import api, bootstrap
from reminders.embedded import Services, postgres, running
from reminders.embedded.programs import postgres_package, postgres_programs
from reminders.ledger.database import Database, driver_url
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.settings import Secret, Settings
from tables import empty

SIGNING_SECRET = "tests-only-signing-secret-0123456789"
ACCEPTED = "postgres_fsync,postgres_full_page_writes"
"""What processes must know of the run's Postgres to start on it; see `services`."""

# How long an example takes is a matter of how busy the machine is: by default 200 ms are a fault, or a second for making ten.
hypothesis_settings.register_profile("fresh", deadline=None)
# What `make test` tells of one commit today it tells tomorrow; `make test-full` draws fresh examples.
hypothesis_settings.register_profile("same", deadline=None, derandomize=True)
hypothesis_settings.load_profile("same")


def pytest_configure() -> None:
    """Started in the background by a shell, this process ignores SIGINT, and so would every command that a test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = interleaved(items, Path(__file__).parent)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A home that Postgres's own user can reach, so that nothing of it lies elsewhere; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="reminders-tests-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "home"


@pytest.fixture
def home() -> Iterator[Path]:
    """A fresh home folder for embedded services."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """Embedded Postgres and Redis of this test run alone. They keep what a killed process leaves, but not what a machine does.

    Waiting for the disk is more than half of what a short test costs. Tests that crash servers have homes of their own, where
    Postgres is as we ship it.
    """
    with open_folder() as home, ExitStack() as stack:
        with patch.dict(postgres._OPTIONS, {"fsync": "off", "full_page_writes": "off"}):
            found = stack.enter_context(running(home))
        yield found


@pytest.fixture(scope="session")
def migrated(services: Services) -> str:
    """The URL of a database whose schema is at head."""
    migrate(services.database_url, "reminders")
    database = Database(services.database_url, schema="reminders")
    make_partitions(database)
    bootstrap.tell_ledger(Settings(), database)
    database.close()
    return services.database_url


@pytest.fixture(scope="module", autouse=True)
def no_descriptors_left() -> Iterator[None]:
    """No test file leaves many more descriptors open than there were."""
    with none_left():
        yield


@pytest.fixture
def psql() -> Callable[[str, str], None]:
    """Run a script as its reader would: with psql, which sends statement by statement."""

    def run(url: str, script: str) -> None:
        address = driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        program = postgres_programs(postgres_package()) / "psql"
        command = [program, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={address}"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    return run


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's shell reaches a test; webhooks may go to loopback."""
    for name in [name for name in os.environ if name.startswith("REMINDERS_") or name in {"DATABASE_URL", "REDIS_URL"}]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REMINDERS_ALLOW_PRIVATE", "1")
    monkeypatch.setenv("REMINDERS_WEBHOOK_SECRET", SIGNING_SECRET)
    monkeypatch.setenv("REMINDERS_ACCEPT", ACCEPTED)
    api._settings.cache_clear()
    for cached in (
        bootstrap.installation,
        bootstrap.database,
        bootstrap.scan_ledger,
        bootstrap.scan,
        bootstrap.deliver,
    ):
        cached.cache_clear()


@pytest.fixture
def database(migrated: str) -> Iterator[Database]:
    """An empty ledger."""
    database = Database(migrated, schema="reminders", pool_size=40)
    with database.transaction() as connection, connection.cursor() as cursor:
        empty(cursor)
    # A purge of an earlier test may have dropped a month that held nothing, at a month's end also this one.
    make_partitions(database)
    yield database
    database.close()


@pytest.fixture
def broker(services: Services) -> Iterator[redis.Redis]:
    """An empty Redis."""
    client = redis.Redis.from_url(services.redis_url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def settings(services: Services) -> Settings:
    """Settings that point at the run's own services."""
    return Settings(
        database_url=Secret(services.database_url),
        redis_url=Secret(services.redis_url),
        webhook_secret=Secret(SIGNING_SECRET),
        allow_private=True,
    )

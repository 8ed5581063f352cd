"""A database of the machine's own, under its clock, with every move of a status noted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import psycopg2
import pytest
from hypothesis.internal.conjecture.engine import ConjectureRunner

from integration.ledger import audit
from model.machine import ReminderMachine
from model.model_clock import INSTALL, under_the_clock
from model.model_database import ModelDatabase
from reminders.domain import identity
from reminders.embedded import Services
from reminders.ledger import finalizing, giving_back
from reminders.ledger.database import driver_url
from reminders.ledger.migrations import migrate
from reminders.pipeline import deliver, finalize, publish, scan

_VACUUMS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum %'"
"""The launcher too: until it has heard that it is off, and ended, it may start another worker."""


def _run_once(url: str, *statements: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


@pytest.fixture(scope="module")
def model_base(services: Services) -> Iterator[ModelDatabase]:
    """Migrated, empty, and without another clock. No longer than a file: other files' tests end connections."""
    _run_once(services.database_url, "CREATE DATABASE modelled")
    url = driver_url(services.database_url).set(drivername="postgresql", database="modelled")
    text = url.render_as_string(hide_password=False)
    migrate(text, "reminders")
    _run_once(text, INSTALL)
    audit.install(lambda statement: _run_once(text, statement))
    base = ModelDatabase(under_the_clock(text))
    yield base
    base.close()
    _run_once(services.database_url, "DROP DATABASE modelled WITH (FORCE)")


@pytest.fixture(autouse=True)
def _nothing_from_outside(
    model_base: ModelDatabase, services: Services, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The machine's own database, clock and chance, and nothing else that decides anything; nobody waits long."""
    monkeypatch.setattr(ReminderMachine, "base", model_base, raising=False)
    for module, name in ((scan, "time"), (identity, "time"), (identity, "os")):
        monkeypatch.setattr(module, name, getattr(module, name))  # each example puts its own there
    for module in (deliver, finalize):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(publish, "LOCKED_PAUSES", (0.0, 0.0, 0.0))
    for module in (finalizing, giving_back):
        monkeypatch.setattr(module, "LOCK_TIMEOUT_MS", 5)
    # Hypothesis follows each example with some five that differ from it in what most often does not matter here: of 126 only
    # 59 were different. All of them are to be new.
    monkeypatch.setattr(ConjectureRunner, "generate_mutations_from", lambda *_: None)
    with _without_autovacuum(services.database_url):
        yield


@contextmanager
def _without_autovacuum(url: str) -> Iterator[None]:
    """It locks tables for moments, makes room in them and changes plans, whenever it likes."""
    _run_once(url, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for _ in range(600):
            cursor.execute(f"SELECT current_setting('autovacuum') = 'off' AND ({_VACUUMS}) = 0")
            if cursor.fetchone() == (True,):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("an autovacuum does not end")
    connection.close()
    try:
        yield
    finally:
        _run_once(url, "ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")

"""A database of the machine's own, under its clock, with every move of a status noted."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from integration.ledger import audit
from model.model_clock import INSTALL, under_the_clock
from model.model_database import ModelDatabase
from reminders.embedded import Services
from reminders.ledger.database import driver_url
from reminders.ledger.migrations import migrate


def _run_once(url: str, *statements: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


@pytest.fixture(scope="session")
def model_base(services: Services) -> Iterator[ModelDatabase]:
    """Migrated, empty, and without another clock."""
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

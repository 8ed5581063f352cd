"""Databases of their own on the run's Postgres: a migration test must not touch the ledger the other tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import psycopg2
import pytest

from reminders.embedded import Services
from reminders.ledger.database import driver_url

_numbers = count()


def run(url: str, query: str) -> list[tuple]:
    connection = psycopg2.connect(driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False))
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

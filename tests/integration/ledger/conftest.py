"""The ledger with scripted neighbours. After each test, every status move that Postgres saw must be one we document."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from integration.ledger import audit
from integration.ledger.world import World


@pytest.fixture(scope="package")
def audited(migrated: str) -> Iterator[None]:
    """Triggers that note every move of a status, for the tests of this folder."""
    connection = psycopg2.connect(migrated)
    connection.autocommit = True
    with connection.cursor() as cursor:
        audit.install(cursor.execute)
        yield
        audit.remove(cursor.execute)
    connection.close()


@pytest.fixture
def world(audited: None, database) -> Iterator[World]:
    """An empty ledger and its neighbours; at the end no undocumented move may have happened."""
    world = World(database)
    world.sql("DELETE FROM audit.moves")
    yield world
    world.close()
    rows = world.sql("SELECT transaction, sent_at, place, thing, old, new FROM audit.moves ORDER BY number")
    assert audit.strays(rows) == []

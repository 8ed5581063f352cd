from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.settlement.shop import ORDERS, Shop
from reminders.ledger.database import Database
from reminders.settings import Settings


@pytest.fixture
def shop(database: Database, settings: Settings) -> Iterator[Shop]:
    """An application in the same database, with an empty table of orders."""
    found = Shop(database, settings)
    found.sql(
        f"CREATE TABLE {ORDERS} (reference text PRIMARY KEY, customer text, amount numeric(12, 2), currency text, zone text, "
        "hook text, payout_expected_at timestamptz)"
    )
    yield found
    found.sql(f"DROP TABLE {ORDERS}")

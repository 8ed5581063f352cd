"""What reconciliation keeps goes when it is old: files as reminders do, lines and decisions by whole orders, runs with their lists."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from integration.settlement.shop import TODAY, Row
from reminders import bootstrap, tasks
from reminders.ledger import settlement_files as kept
from reminders.ledger.settlement_files import Received, StoredPage
from reminders.operate.settlement_retention import SettlementsPurged, purge_settlements, rehearse_settlements

DAY = 86400.0
LONG_AGO = TODAY - timedelta(days=800)
OLD = {"created": LONG_AGO - timedelta(days=1), "paid": LONG_AGO}
KEEP = {"files": 90 * DAY, "others": 730 * DAY}
NOTHING = SettlementsPurged(0, 0, 0, 0, complete=True)


def left(shop, table="settlement_lines", column="line_id"):
    return sorted(row[0] for row in shop.sql(f"SELECT {column} FROM reminders.{table}"))


@pytest.fixture
def old_orders(shop):
    """One order that was over long ago, one that was refunded lately, a line without an order; a run of now."""
    for reference in ("order-1", "order-2"):
        shop.order(reference)
    shop.run(
        [
            Row("t1", "order-1", **OLD),
            Row("t2", "order-2", **OLD),
            Row("t3", "order-2", gross="-10.00", category="refund", charge="ch_t2", payout="po_2"),
            Row("t4", **OLD),
            Row("p1", gross="-150.00", category="payout", **OLD),
        ]
    )
    return shop


def test_an_order_goes_when_all_of_it_is_old(old_orders):
    shop = old_orders
    assert left(shop) == ["p1", "t1", "t2", "t3", "t4"]
    decided = left(shop, "reconciliation_decisions", "name")
    assert rehearse_settlements(shop.database, **KEEP) == SettlementsPurged(0, 0, 3, 0, complete=True)
    assert purge_settlements(shop.database, **KEEP) == SettlementsPurged(0, 0, 3, 2, complete=True)
    assert left(shop) == ["t2", "t3"]
    assert decided == ["refunded", "settled", "settled", "unknown_order"]
    assert left(shop, "reconciliation_decisions", "name") == ["refunded", "settled"]
    assert purge_settlements(shop.database, **KEEP) == NOTHING


def test_what_is_purged_and_comes_again_tells_nobody(old_orders):
    shop = old_orders
    before = shop.sql("SELECT count(*) FROM reminders.reminders")
    purge_settlements(shop.database, **KEEP)
    found = shop.run([Row("t1", "order-1", **OLD)])
    assert (found.outcomes, found.not_told) == ({"created": 1}, {"too old": 1})
    assert shop.sql("SELECT count(*) FROM reminders.reminders") == before


def test_all_steps_are_small_and_none_is_forgotten(old_orders, monkeypatch):
    from reminders.ledger import settlement_purging

    monkeypatch.setattr(settlement_purging, "LINES", 1)
    monkeypatch.setattr(settlement_purging, "RUN_ROWS", 1)
    shop = old_orders
    shop.sql("UPDATE reminders.reconciliation_runs SET started_at = %s, heard_at = %s", LONG_AGO, LONG_AGO)
    assert purge_settlements(shop.database, **KEEP) == SettlementsPurged(0, 1, 3, 2, complete=True)
    assert left(shop, "reconciliation_run_decisions", "run_id") == []


def test_out_of_time_the_rest_is_left(old_orders):
    done = purge_settlements(old_orders.database, **KEEP, seconds=0.0)
    assert done == SettlementsPurged(0, 0, 0, 0, complete=False)
    assert len(left(old_orders)) == 5


def test_a_page_of_a_run_is_not_waited_for(old_orders):
    shop = old_orders
    with shop.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.settlement_sources FOR NO KEY UPDATE")
        assert purge_settlements(shop.database, **KEEP) == NOTHING
    assert purge_settlements(shop.database, **KEEP).lines == 3


def test_runs_go_with_their_lists_and_leave_what_they_decided(old_orders):
    shop = old_orders
    shop.sql("UPDATE reminders.reconciliation_runs SET started_at = %s, heard_at = %s", LONG_AGO, LONG_AGO)
    shop.sql("UPDATE reminders.settlement_lines SET payout_at = now()")
    assert purge_settlements(shop.database, **KEEP) == SettlementsPurged(0, 1, 0, 0, complete=True)
    for table in (
        "reconciliation_runs",
        "reconciliation_run_sums",
        "reconciliation_run_payouts",
        "reconciliation_run_decisions",
    ):
        assert shop.sql(f"SELECT count(*) FROM reminders.{table}") == [(0,)]
    assert len(left(shop, "reconciliation_decisions", "name")) == 4


@pytest.fixture
def files(shop):
    """One that was complete a hundred days ago, one that was never finished, one of now."""
    made = [kept.add(shop.database, source="stripe", name=f"{number}.csv", actor="ada") for number in range(3)]
    pages = [StoredPage(number, number + 1, 1, b"x\n") for number in range(1, 121)]
    kept.append(shop.database, made[0], 0, Received(9, pages, b"id", b"", 2))
    kept.finish(shop.database, made[0], 9, b"\x01" * 32)
    for each in made[:2]:
        shop.sql(
            "UPDATE reminders.reconciliation_files SET created_at = now() - interval '101 days',"
            " touched_at = now() - interval '100 days' WHERE id = %s",
            str(each),
        )
    return made


def test_files_go_as_reminders_do(shop, files):
    assert rehearse_settlements(shop.database, files=101 * DAY, others=730 * DAY) == NOTHING
    assert purge_settlements(shop.database, files=101 * DAY, others=730 * DAY) == NOTHING
    assert rehearse_settlements(shop.database, **KEEP).files == 2
    assert purge_settlements(shop.database, **KEEP) == SettlementsPurged(2, 0, 0, 0, complete=True)
    assert left(shop, "reconciliation_files", "name") == ["2.csv"]
    assert shop.sql("SELECT count(*) FROM reminders.reconciliation_file_pages") == [(0,)]


@pytest.mark.usefixtures("old_orders", "files")
def test_every_night(services, migrated, monkeypatch, caplog):
    monkeypatch.setenv("DATABASE_URL", migrated)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    with caplog.at_level(logging.INFO, logger="reminders.tasks"):
        tasks.purge_ended()
    bootstrap.database().close()
    assert caplog.messages[-1] == "purge.settlements files=2 runs=0 lines=3 decisions=2 complete=True"

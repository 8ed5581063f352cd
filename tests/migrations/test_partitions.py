"""The attempts' months: a DEFAULT partition from the start, months ahead by maintenance, no surprise in between."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from reminders.ledger import attempt_months
from reminders.ledger.attempt_months import drop_empty_months
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.status import MONTHS_AHEAD, make_partitions

PARTITIONS = """SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'reminders.delivery_attempts'::regclass ORDER BY 1"""
ATTEMPT = """INSERT INTO reminders.delivery_attempts
(delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
VALUES ('{key}', 1, '{at}', gen_random_uuid(), 'w', 'retry', '', '', '') RETURNING (SELECT relname FROM pg_class c WHERE c.oid = delivery_attempts.tableoid)"""


@pytest.fixture
def database(empty_database):
    migrate(empty_database, "reminders")
    database = Database(empty_database, schema="reminders")
    yield database
    database.close()


def months(count: int) -> list[tuple[int, int]]:
    now = datetime.now(UTC)
    return [divmod(now.year * 12 + now.month - 1 + ahead, 12) for ahead in range(count)]


def test_a_default_partition_takes_what_no_month_takes(database, empty_database, query):
    assert query(empty_database, PARTITIONS) == [("delivery_attempts_default", "DEFAULT")]
    (place,) = query(empty_database, ATTEMPT.format(key="a", at="2001-01-01Z"))[0]
    assert place == "delivery_attempts_default"


def test_this_month_and_three_ahead_are_made_once(database, empty_database, query):
    names = [f"delivery_attempts_{year}_{month + 1:02}" for year, month in months(1 + MONTHS_AHEAD)]
    assert MONTHS_AHEAD == 3
    assert make_partitions(database) == names
    assert make_partitions(database) == []
    assert [name for name, _ in query(empty_database, PARTITIONS)] == [*names, "delivery_attempts_default"]
    now = datetime.now(UTC)
    (place,) = query(empty_database, ATTEMPT.format(key="a", at=now.isoformat()))[0]
    assert place == f"delivery_attempts_{now:%Y_%m}"


def test_months_begin_and_end_in_utc_whatever_the_session(database, empty_database, query):
    query(
        empty_database,
        f"ALTER DATABASE {empty_database.rpartition('/')[2].partition('?')[0]} SET timezone = 'Pacific/Kiritimati'",
    )
    own = Database(empty_database, schema="reminders")
    make_partitions(own)
    own.close()
    year, month = months(2)[1]
    first = f"{year}-{month + 1:02}-01 00:00:00+00"
    (place,) = query(empty_database, ATTEMPT.format(key="a", at=first))[0]
    assert place == f"delivery_attempts_{year}_{month + 1:02}"


def test_attempts_made_before_their_months_partition_do_not_stop_the_months_ahead(
    database, empty_database, query, caplog
):
    """A new installation works before maintenance has run for the first time."""
    now = datetime.now(UTC)
    query(empty_database, ATTEMPT.format(key="a", at=now.isoformat()))
    made = make_partitions(database)
    assert made == [f"delivery_attempts_{year}_{month + 1:02}" for year, month in months(1 + MONTHS_AHEAD)[1:]]
    assert "partitions.month_in_default" in caplog.text
    (place,) = query(empty_database, ATTEMPT.format(key="b", at=now.isoformat()))[0]
    assert place == "delivery_attempts_default"


MONTH = """CREATE TABLE reminders.delivery_attempts_{name} PARTITION OF reminders.delivery_attempts
FOR VALUES FROM ('{start} 00:00:00+00') TO ('{end} 00:00:00+00')"""


@pytest.fixture
def old_months(database, empty_database, query):
    query(empty_database, MONTH.format(name="2001_01", start="2001-01-01", end="2001-02-01"))
    query(empty_database, MONTH.format(name="2001_02", start="2001-02-01", end="2001-03-01"))


def names(query, url) -> list[str]:
    return [name.removeprefix("delivery_attempts_") for name, _ in query(url, PARTITIONS)]


def test_a_month_that_is_over_and_empty_is_dropped(database, old_months, empty_database, query):
    query(empty_database, ATTEMPT.format(key="a", at="2001-01-31T23:59:59Z"))
    make_partitions(database)
    before = names(query, empty_database)
    assert drop_empty_months(database, datetime(2001, 2, 28, 23, tzinfo=UTC)) == []
    assert drop_empty_months(database, datetime(2001, 3, 1, tzinfo=UTC)) == ["delivery_attempts_2001_02"]
    assert names(query, empty_database) == [each for each in before if each != "2001_02"]
    query(empty_database, "DELETE FROM reminders.delivery_attempts")
    query(empty_database, "VACUUM reminders.delivery_attempts_2001_01")
    assert drop_empty_months(database, datetime.now(UTC)) == ["delivery_attempts_2001_01"]
    assert query(empty_database, ATTEMPT.format(key="a", at="2001-01-31Z")) == [("delivery_attempts_default",)]


def test_a_month_that_somebody_reads_stays_for_the_next_time(database, old_months, empty_database):
    reader = psycopg2.connect(empty_database.replace("postgresql+psycopg2", "postgresql"))
    with reader.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.delivery_attempts")
    assert drop_empty_months(database, datetime.now(UTC)) == []
    # Closed without a word, it would hold its locks until its backend has noticed.
    reader.rollback()
    reader.close()
    assert len(drop_empty_months(database, datetime.now(UTC))) == 2


def test_a_month_that_another_purge_drops_meanwhile_is_passed_over(
    database, old_months, empty_database, query, monkeypatch
):
    monkeypatch.setattr(attempt_months, "LOCK_TIMEOUT_MS", 30_000)
    other = psycopg2.connect(empty_database.replace("postgresql+psycopg2", "postgresql"))
    with ThreadPoolExecutor(1) as pool, closing(other), other.cursor() as cursor:
        cursor.execute("LOCK TABLE ONLY reminders.delivery_attempts IN ACCESS EXCLUSIVE MODE")
        dropped = pool.submit(drop_empty_months, database, datetime.now(UTC))
        end = time.monotonic() + 30
        while query(empty_database, "SELECT count(*) FROM pg_locks WHERE NOT granted") != [(1,)]:
            assert time.monotonic() < end
        cursor.execute("DROP TABLE reminders.delivery_attempts_2001_01")
        other.commit()
        assert dropped.result(timeout=30) == ["delivery_attempts_2001_02"]

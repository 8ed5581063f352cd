"""Postgres that goes away, or whose replies are lost, in the middle of a run; and roles with a stricter isolation."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import psycopg2
import pytest

from acceptance.harness import wait_until
from integration.settlement.shop import ORDERS, QUERY, Row, Shop
from reminders.domain.errors import ServiceUnavailable
from reminders.intake.settlement.matching import SqlMatcher
from reminders.intake.settlement.reporting import runs
from reminders.ledger import settlement_runs
from reminders.ledger.database import Database

ROWS = [Row(f"l{n:04}", f"o{n}") for n in range(1_100)]


@pytest.fixture
def filled(shop):
    for n in range(1_100):
        shop.order(f"o{n}")
    return shop


class Terminated(SqlMatcher):
    """Loses its connection, `times` times."""

    times = 0

    def match(self, connection, references):
        if Terminated.times:
            Terminated.times -= 1
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return super().match(connection, references)


def test_a_page_that_loses_postgres_is_done_again(filled):
    Terminated.times = 2
    report = filled.run(ROWS, matcher=Terminated(QUERY))
    assert len(filled.told) == 2
    assert all(line.startswith("Postgres fails, trying again for ") for line in filled.told)
    assert report.outcomes == {"created": 1_100}
    assert len(filled.reminders()) == 1_100


def test_postgres_that_stays_away_leaves_the_run_to_the_next(filled, monkeypatch):
    Terminated.times = 10**6
    workshop = filled.workshop
    monkeypatch.setattr(filled, "workshop", lambda *given, **more: replace(workshop(*given, **more), patience=0.3))
    with pytest.raises(ServiceUnavailable, match=r"^Postgres has failed for 0.3 s: "):
        filled.run(ROWS, matcher=Terminated(QUERY))
    Terminated.times = 0
    assert [(each.state, each.step, each.page) for each in runs(filled.database)] == [("interrupted", "decide", 2)]
    assert filled.run(ROWS).outcomes == {"created": 1_100}
    assert len(runs(filled.database)) == 1


class LosesReplies(Database):
    """Commits, and loses the reply of every third transaction."""

    number = 0

    @contextmanager
    def transaction(self):
        with super().transaction() as connection:
            yield connection
        self.number += 1
        if self.number % 3 == 0:
            raise psycopg2.OperationalError("server closed the connection unexpectedly")


def test_pages_whose_replies_are_lost_are_not_done_twice(filled, migrated):
    losing = Shop(LosesReplies(migrated, schema="reminders"), filled.settings)
    report = losing.run(ROWS)
    assert losing.database.number > 9
    assert (report.run.read, report.run.new, report.outcomes) == (1_100, 1_100, {"created": 1_100})
    assert [(each.count, str(each.gross)) for each in report.categories] == [(1_100, "55000.00")]
    assert len(filled.reminders()) == 1_100
    losing.database.close()


def test_who_waited_for_its_turn_sees_what_the_other_has_committed(shop, migrated):
    """Also for a role whose transactions are stricter: their view of the tables would begin before the wait."""
    strict = (
        f"{migrated}{'&' if '?' in migrated else '?'}options=-cdefault_transaction_isolation%3Drepeatable%5C%20read"
    )
    database = Database(strict, schema="reminders")
    assert Shop(database, shop.settings).sql("SHOW transaction_isolation") == [("repeatable read",)]
    shop.sql("INSERT INTO reminders.settlement_sources (name) VALUES ('stripe')")
    seen = []

    def wait_and_look():
        with database.transaction() as connection, connection.cursor() as cursor:
            settlement_runs.take_turn(connection, "reminders", "stripe")
            cursor.execute(f"SELECT count(*) FROM {ORDERS}")
            seen.extend(cursor.fetchall())

    waiting = threading.Thread(target=wait_and_look)
    with database.transaction() as connection, connection.cursor() as cursor:
        settlement_runs.take_turn(connection, "reminders", "stripe")
        waiting.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%settlement_sources%%'"
        wait_until(lambda: shop.sql(waits) == [(1,)], 30, "the other waits for its turn")
        cursor.execute(f"INSERT INTO {ORDERS} (reference) VALUES ('A')")
    waiting.join(30)
    assert seen == [(1,)]
    database.close()

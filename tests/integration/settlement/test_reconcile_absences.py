"""Postgres that goes away, or whose replies are lost, in the middle of a run; and roles with a stricter isolation."""

from contextlib import contextmanager
from dataclasses import replace

import psycopg2
import pytest

from integration.settlement.shop import QUERY, Row, Shop
from integration.settlement.test_reconcile_at_once import at_once
from reminders.domain.errors import ServiceUnavailable
from reminders.intake.settlement.matching import SqlMatcher
from reminders.intake.settlement.reporting import runs
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


def test_a_role_with_repeatable_read_sees_what_the_other_has_committed(filled, migrated):
    strict = (
        f"{migrated}{'&' if '?' in migrated else '?'}options=-cdefault_transaction_isolation%3Drepeatable%5C%20read"
    )
    shops = [Shop(Database(strict, schema="reminders"), filled.settings) for _ in range(2)]
    assert shops[0].sql("SHOW transaction_isolation") == [("repeatable read",)]
    halves = [
        [Row(f"{part}{n:04}", f"o{n}", gross) for n in range(1_100)] for part, gross in (("a", "30.00"), ("b", "20.00"))
    ]
    results = at_once(*(lambda one=one, rows=rows: one.run(rows) for one, rows in zip(shops, halves, strict=True)))
    assert [each.run.state for each in results] == ["finished", "finished"], results
    assert {each[0] for each in filled.decisions()} == {"settled"}
    assert len(filled.reminders()) == 1_100
    for each in shops:
        each.database.close()

"""A connection goes back to the pool outside of any transaction, however the last one on it ended."""

from __future__ import annotations

import psycopg2
import pytest
from psycopg2 import errors

from reminders.ledger import database as subject
from reminders.ledger.database import Database


class CutOff:
    """A driver's connection, on which the statements named in `cut` fail as under a time limit: their transaction is aborted."""

    def __init__(self, driver, cut):
        self.driver = driver
        self.cut = cut

    def __getattr__(self, name):
        return getattr(self.driver, name)

    def cursor(self):
        return CutOffCursor(self.driver.cursor(), self.cut)


class CutOffCursor:
    def __init__(self, cursor, cut):
        self.cursor = cursor
        self.cut = cut

    def execute(self, text, *given):
        self.cursor.execute("SELECT 1 / 0" if text in self.cut else text, *given)


@pytest.fixture
def own(world):
    database = Database(world.database.url.render_as_string(hide_password=False), schema="reminders", pool_size=1)
    yield database
    database.close()


def step(own, *, too_slow):
    with own.transaction() as connection:
        connection.cursor().execute("CREATE TEMPORARY TABLE half_done ON COMMIT DROP AS SELECT 1")
        if too_slow:
            raise errors.QueryCanceled("the step took too long")


@pytest.mark.parametrize("cut", [["COMMIT"], ["ROLLBACK"], ["COMMIT", "ROLLBACK"]], ids="+".join)
def test_an_end_that_is_cut_off_leaves_nothing_for_the_next_user(own, monkeypatch, cut):
    whole = subject._driver
    monkeypatch.setattr(subject, "_driver", lambda connection: CutOff(whole(connection), cut))
    with pytest.raises(psycopg2.Error):
        step(own, too_slow="COMMIT" not in cut)
    monkeypatch.undo()
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('half_done')")
        assert cursor.fetchall() == [(None,)]

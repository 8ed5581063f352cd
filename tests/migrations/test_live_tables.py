"""Migrations beside an application at work: an index is built while its table is written, and cut-off builds are replaced."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger import migration_steps
from reminders.ledger.migrations import migrate

VERSION = "SELECT version_num FROM reminders.schema_version"
INDEX = """SELECT indexrelid, indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relname = 'due_give_up'"""
ADDED = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'due' AND column_name = 'give_up_at'"
BUILDING = "SELECT count(*) FROM pg_stat_progress_create_index WHERE phase = 'waiting for writers before build'"
WAITING = """SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'reminders-migrate' AND datname = current_database() AND query LIKE '%FROM pg_locks WHERE pid%'"""


@pytest.fixture
def busy(live):
    """A ledger at 0001 with one live reminder, which an open transaction of the application has locked.

    The migration waits for it once it has added its columns, so a test can open other transactions before the index.
    """
    migrate(live.url, "reminders", "0001")
    live.old_reminder()
    live.holder = live.application()
    with live.holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders FOR NO KEY UPDATE")
    return live


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_second_migrator_does_not_hold_up_the_index_that_the_first_is_building(busy, isolation):
    """Each would wait for the other if the second waited inside the lock: the build for the second's snapshot."""
    busy.query(f"ALTER DATABASE {busy.name} SET default_transaction_isolation = '{isolation}'")
    first = busy.migrator()
    busy.until(ADDED, 1)
    writer = busy.writer()
    busy.holder.rollback()
    busy.until(BUILDING, 1)
    second = busy.migrator()
    busy.until_asking(1)
    assert first.poll() is second.poll() is None
    writer.commit()
    assert [each.communicate(timeout=60)[1] for each in (first, second)] == ["", ""]
    assert (first.returncode, second.returncode) == (0, 0)
    assert [valid for _, valid in busy.query(INDEX)] == [True]


def test_an_index_left_invalid_is_replaced(live):
    migrate(live.url, "reminders", "0002")
    ((left, _),) = live.query(INDEX)
    live.query(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {left}")
    live.query("UPDATE reminders.schema_version SET version_num = '0001'")
    assert migrate(live.url, "reminders", "0002") == ("0001", "0002")
    ((built, valid),) = live.query(INDEX)
    assert (built != left, valid) == (True, True)


def test_an_index_that_was_finished_before_the_migration_was_cut_off_is_kept(live):
    migrate(live.url, "reminders", "0002")
    before = live.query(INDEX)
    live.query("UPDATE reminders.schema_version SET version_num = '0001'")
    migrate(live.url, "reminders", "0002")
    assert live.query(INDEX) == before


def test_a_build_that_is_held_up_ends_in_time_and_is_begun_anew_by_the_next_run(busy, monkeypatch):
    # Enough to begin it, on a busy machine too: what is begun is left invalid.
    monkeypatch.setattr(migration_steps, "LONGEST_BUILD", 3.0)
    with busy.migrating("0002") as migrating:
        busy.until(ADDED, 1)
        writer = busy.writer()
        busy.holder.rollback()
        with pytest.raises(ServiceUnavailable, match="due_give_up was not built within 3 s"):
            migrating.result(timeout=60)
    assert busy.query(VERSION) == [("0001",)]
    ((left, valid),) = busy.query(INDEX)
    assert valid is False
    writer.commit()
    monkeypatch.undo()
    assert migrate(busy.url, "reminders", "0002") == ("0001", "0002")
    ((built, valid),) = busy.query(INDEX)
    assert (built != left, valid) == (True, True)


def test_a_build_that_outlived_its_migrator_is_waited_for_and_used(busy):
    """Postgres goes on building when the client was killed; to drop such an index would be a deadlock."""
    second = busy.migrator()
    busy.until(ADDED, 1)
    writer = busy.writer()
    with ThreadPoolExecutor(1) as pool:
        create = "CREATE INDEX CONCURRENTLY due_give_up ON reminders.due (give_up_at) WHERE give_up_at IS NOT NULL"
        outliving = pool.submit(busy.query, create)
        busy.until(BUILDING, 1)
        ((begun, valid),) = busy.query(INDEX)
        assert valid is False
        busy.holder.rollback()
        busy.until(WAITING, 1)
        writer.commit()
        outliving.result(timeout=60)
    assert second.communicate(timeout=60)[1] == ""
    assert busy.query(INDEX) == [(begun, True)]


def test_a_name_that_is_taken_by_something_else_is_said(live):
    migrate(live.url, "reminders", "0001")
    live.query("CREATE INDEX due_give_up ON reminders.reminders (kind)")
    with pytest.raises(ServiceUnavailable, match="is no index of due"):
        migrate(live.url, "reminders", "0002")
    assert live.query(VERSION) == [("0001",)]
    live.query("ALTER INDEX reminders.due_give_up RENAME TO theirs")
    assert migrate(live.url, "reminders", "0002") == ("0001", "0002")

"""0002 on a ledger in use: the rows that exist learn where they go and when they end, and nobody's locks are waited on."""

from __future__ import annotations

import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger import migration_steps
from reminders.ledger.migrations import migrate

ADDED = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'due' AND column_name = 'give_up_at'"
NOW = "timestamptz '2026-06-01 12:00Z'"
LATER, LATEST = f"{NOW} + interval '1 hour'", f"{NOW} + interval '2 hours'"
FILLED = f"""SELECT d.destination_id = r.destination_id, d.give_up_at IS NOT DISTINCT FROM r.expires_at,
    extract(epoch FROM d.wake_at - {NOW})::integer, d.status
FROM reminders.due d JOIN reminders.reminders r USING (id) WHERE d.id = '{{id}}'"""


@pytest.fixture
def old(live):
    migrate(live.url, "reminders", "0001")
    return live


def filled(live, made):
    (row,) = live.query(FILLED.format(id=made))
    return row


def unfilled(live):
    return live.query("SELECT id::text FROM reminders.due WHERE destination_id IS NULL")


@pytest.mark.parametrize("batch", [2, 500])
def test_every_row_is_filled_in_and_none_wakes_after_its_end(old, monkeypatch, batch):
    monkeypatch.setattr(migration_steps, "BATCH", batch)
    given = {"due": f"{NOW} - interval '1 hour'"}
    expected = {
        old.old_reminder(wakes=LATER, **given): (True, True, 3600, "pending"),
        old.old_reminder(wakes=LATER, ends=LATEST, **given): (True, True, 3600, "pending"),
        old.old_reminder(wakes=LATER, ends=NOW, **given): (True, True, 0, "pending"),
        old.old_reminder(wakes=LATEST, ends=LATER, status="published", **given): (True, True, 3600, "published"),
        old.old_reminder(wakes=LATEST, ends=LATER, status="leased", **given): (True, True, 3600, "leased"),
        old.old_reminder(wakes=LATEST, ends=LATER, status="sending", **given): (True, True, 7200, "sending"),
        old.old_reminder(wakes=LATER, status="sending", **given): (True, True, 3600, "sending"),
    }
    migrate(old.url, "reminders")
    assert {made: filled(old, made) for made in expected} == expected
    late = "SELECT count(*) FROM reminders.due WHERE status <> 'sending' AND wake_at > give_up_at"
    assert old.query(late) == [(0,)]


def test_rows_that_the_application_holds_are_filled_in_when_it_lets_go(old):
    """Its reschedule, of which the migration saw the old end at first, counts; and no other row waits meanwhile."""
    moved, cancelled, held, free = (old.old_reminder(wakes=LATER, ends=LATEST, due=NOW) for _ in range(4))
    application, later = old.application(), old.application()
    with application.cursor() as cursor:
        cursor.execute(f"UPDATE reminders.reminders SET expires_at = {NOW} + interval '5 minutes' WHERE id = '{moved}'")
    with old.migrating() as migrating:
        old.until(ADDED, 1)
        old.until(f"SELECT count(*) FROM reminders.due WHERE id = '{free}' AND destination_id IS NOT NULL", 1)
        assert unfilled(old) == [(moved,)]
        with later.cursor() as cursor:
            cursor.execute(f"DELETE FROM reminders.due WHERE id = '{cancelled}'")
            cursor.execute(f"UPDATE reminders.due SET destination_id = NULL WHERE id = '{held}'")
        later.commit()
        with later.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM reminders.due WHERE id = '{held}' FOR UPDATE")
        application.commit()
        old.until(f"SELECT count(*) FROM reminders.due WHERE id = '{moved}' AND destination_id IS NOT NULL", 1)
        later.commit()
        migrating.result(timeout=60)
    assert filled(old, moved) == (True, True, 300, "pending")
    assert filled(old, held) == filled(old, free) == (True, True, 3600, "pending")
    assert unfilled(old) == []


def test_a_row_that_nobody_lets_go_is_said_and_the_next_run_goes_on_from_there(old, monkeypatch):
    monkeypatch.setattr(migration_steps, "LONGEST_STALL", 0.2)
    held, free = old.old_reminder(), old.old_reminder()
    application = old.application()
    with application.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM reminders.reminders WHERE id = '{held}' FOR UPDATE")
    with pytest.raises(ServiceUnavailable, match=r"1 rows of due have been locked by open transactions for 0\.2 s"):
        migrate(old.url, "reminders")
    assert old.query("SELECT version_num FROM reminders.schema_version") == [("0001",)]
    assert filled(old, free)[:2] == (True, True)
    application.rollback()
    assert migrate(old.url, "reminders")[0] == "0001"
    assert filled(old, held)[:2] == (True, True)


def test_a_batch_holds_only_its_own_rows_and_only_while_it_runs(old, monkeypatch):
    """While one row is waited for, every other one can be locked at once."""
    held, *others = (old.old_reminder() for _ in range(5))
    application = old.application()
    with application.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM reminders.reminders WHERE id = '{held}' FOR UPDATE")
    with old.migrating() as migrating:
        old.until(ADDED, 1)
        old.until("SELECT count(*) FROM reminders.due WHERE destination_id IS NOT NULL", len(others))
        claims = old.application()
        with claims.cursor() as cursor:
            cursor.execute(f"SELECT id::text FROM reminders.due WHERE id <> '{held}' FOR NO KEY UPDATE NOWAIT")
            assert {row[0] for row in cursor.fetchall()} == set(others)
        claims.rollback()
        application.rollback()
        migrating.result(timeout=60)
    assert unfilled(old) == []

"""0006 on a ledger in use: it goes on where it was cut off, and taken back, what was held is due."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

HOLD = """
UPDATE reminders.due SET status = 'held', wake_at = NULL, hold_id = gen_random_uuid(), held_at = now(), wait_left = interval '1 hour'"""
SEEN = "SELECT status, wake_at <= now(), give_up_at BETWEEN now() + interval '59 min' AND now() + interval '1 hour' FROM reminders.due"
VALID = "SELECT conname FROM pg_constraint WHERE conrelid = 'reminders.due'::regclass AND NOT convalidated"
SHOWN = "SELECT status, hold_id IS NOT NULL FROM reminders.reminders_v1"


def test_taken_back_with_held_rows_they_are_due(live):
    migrate(live.url, "reminders", "0005")
    live.old_reminder()
    migrate(live.url, "reminders", "0006")
    assert live.query(VALID) == []
    live.query(HOLD)
    assert live.query(SHOWN) == [("held", True)]
    migrate(live.url, "reminders", "0005")
    assert live.query(SEEN) == [("pending", True, True)]
    assert migrate(live.url, "reminders", "0006") == ("0005", "0006")
    assert live.query(SHOWN) == [("pending", False)]


def test_cut_off_after_its_first_commit_it_goes_on(live):
    migrate(live.url, "reminders", "0006")
    live.query("UPDATE reminders.schema_version SET version_num = '0005'")
    live.query("DROP INDEX reminders.due_held")
    assert migrate(live.url, "reminders", "0006") == ("0005", "0006")
    assert live.query("SELECT count(*) FROM pg_indexes WHERE indexname = 'due_held'") == [(1,)]
    assert live.query(VALID) == []

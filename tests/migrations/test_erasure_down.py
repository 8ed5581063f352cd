"""0024 on a ledger in use: nothing is changed of what is there; taken back and done again, it is whole."""

from __future__ import annotations

from alembic.script import ScriptDirectory

from reminders.ledger.migrations import migrate
from reminders.ledger.schema_version import scripts_folder

VALID = """SELECT conname FROM pg_constraint
           WHERE conrelid IN ('reminders.reminders'::regclass, 'reminders.series'::regclass) AND conname LIKE '%\\_erased' AND NOT convalidated"""
BEFORE = str(ScriptDirectory(str(scripts_folder())).get_revision("0024").down_revision)


def test_what_is_there_stays_and_what_was_erased_can_live_no_more(live):
    migrate(live.url, "reminders", BEFORE)
    live.old_reminder()
    migrate(live.url, "reminders", "0024")
    assert live.query("SELECT count(*), count(erased_at) FROM reminders.reminders") == [(1, 0)]
    assert live.query("SELECT reminders.erased_user('t', 'u')") == [(None,)]
    assert live.query(VALID) == []


def test_taken_back_its_functions_are_the_older_ones(live):
    migrate(live.url, "reminders", BEFORE)
    defined = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'reminders'::regnamespace ORDER BY 1, 2"
    first = live.query(defined)
    migrate(live.url, "reminders", "0024")
    assert live.query(defined) != first
    migrate(live.url, "reminders", BEFORE)
    assert live.query(defined) == first


def test_cut_off_after_its_first_commit_it_goes_on(live):
    migrate(live.url, "reminders", "0024")
    live.query(f"UPDATE reminders.schema_version SET version_num = '{BEFORE}'")
    assert migrate(live.url, "reminders", "0024") == (BEFORE, "0024")
    assert live.query(VALID) == []

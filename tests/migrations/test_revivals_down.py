"""0021: one function is another, and is the old one again after it was taken back; what was withdrawn is cancelled then."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

MADE = "SELECT prosrc FROM pg_proc WHERE pronamespace = 'reminders'::regnamespace AND proname = 'lock_rows'"
OTHERS = """SELECT pg_get_functiondef(oid) FROM pg_proc
            WHERE pronamespace = 'reminders'::regnamespace AND proname <> 'lock_rows' ORDER BY 1"""


def test_down_makes_the_function_that_there_was(empty_database, query):
    migrate(empty_database, "reminders", "0020")
    before, others = query(empty_database, MADE), query(empty_database, OTHERS)
    migrate(empty_database, "reminders", "0021")
    assert query(empty_database, MADE) != before
    assert query(empty_database, OTHERS) == others
    migrate(empty_database, "reminders", "0020")
    assert query(empty_database, MADE) == before


CHECKED = """SELECT convalidated, pg_get_constraintdef(oid) LIKE '%%moved_at IS NULL) AND (withdrawn_at IS NULL)%%'
             FROM pg_constraint WHERE conname = 'reminders_of_series'"""


def test_what_reconciliation_has_withdrawn_is_cancelled_for_the_older_release(live):
    migrate(live.url, "reminders", "0021")
    made = live.old_reminder(due="now() + interval '1 day'")
    live.query(f"SELECT reminders.cancel('{made}')")
    live.query(f"UPDATE reminders.reminders SET withdrawn_at = now() WHERE id = '{made}'")
    assert live.query(CHECKED) == [(True, False)]
    migrate(live.url, "reminders", "0020")
    assert live.query(CHECKED) == [(True, True)]
    assert live.query("SELECT status, withdrawn_at FROM reminders.reminders") == [("cancelled", None)]
    assert migrate(live.url, "reminders", "0021") == ("0020", "0021")


def test_cut_off_before_it_is_validated_it_goes_on(live):
    migrate(live.url, "reminders", "0021")
    live.query("UPDATE reminders.schema_version SET version_num = '0020'")
    assert migrate(live.url, "reminders", "0021") == ("0020", "0021")
    assert live.query(CHECKED) == [(True, False)]

"""0020: one function is another, and is the old one again after it was taken back."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

MADE = "SELECT prosrc FROM pg_proc WHERE pronamespace = 'reminders'::regnamespace AND proname = 'lock_rows'"
OTHERS = """SELECT pg_get_functiondef(oid) FROM pg_proc
            WHERE pronamespace = 'reminders'::regnamespace AND proname <> 'lock_rows' ORDER BY 1"""


def test_down_makes_the_function_that_there_was(empty_database, query):
    migrate(empty_database, "reminders", "0019")
    before, others = query(empty_database, MADE), query(empty_database, OTHERS)
    migrate(empty_database, "reminders", "0020")
    assert query(empty_database, MADE) != before
    assert query(empty_database, OTHERS) == others
    migrate(empty_database, "reminders", "0019")
    assert query(empty_database, MADE) == before

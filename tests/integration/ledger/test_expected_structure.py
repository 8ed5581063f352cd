"""The doctor's lists of indexes, tables, views and functions are what the migrations make."""

from __future__ import annotations

from reminders.ledger.expected_structure import FUNCTIONS, ORDINARY, UNIQUE, VIEWS
from reminders.operate.doctor.structure import EXPECTED

MADE = """
SELECT t.relname, i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
WHERE t.relnamespace = 'reminders'::regnamespace AND NOT t.relispartition AND x.indisunique = {} ORDER BY 1, 2"""
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'reminders'::regnamespace AND relkind IN ('r', 'p')
   AND (NOT relispartition OR relname = 'delivery_attempts_default')"""


def test_every_index_is_on_the_list_and_no_other(world):
    for expected, unique in ((UNIQUE, True), (ORDINARY, False)):
        listed = sorted((table, index) for table, indexes in expected.items() for index in indexes)
        assert listed == world.sql(MADE.format(unique)), "keep reminders/ledger/expected_structure.py"


def test_every_table_is_expected(world):
    assert {name for (name,) in world.sql(TABLES)} == {*EXPECTED, "schema_version"}


def test_every_view_and_function_is_expected(world):
    views = world.sql("SELECT relname FROM pg_class WHERE relnamespace = 'reminders'::regnamespace AND relkind = 'v'")
    functions = world.sql("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'reminders'::regnamespace")
    assert ({name for (name,) in views}, {name for (name,) in functions}) == (VIEWS, FUNCTIONS)

"""The doctor's list of indexes, and of tables, is what the migrations make."""

from __future__ import annotations

from reminders.ledger.expected_indexes import ORDINARY, UNIQUE
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
        assert listed == world.sql(MADE.format(unique)), "keep reminders/ledger/expected_indexes.py"


def test_every_table_is_expected(world):
    assert {name for (name,) in world.sql(TABLES)} == {*EXPECTED, "schema_version"}

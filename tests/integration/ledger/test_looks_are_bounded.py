"""What `reminders late` and `reminders twice` ask reads what they look for, by its index, and no table that grows."""

import re
from dataclasses import replace

import pytest

from reminders.ledger import overdue, sendings
from reminders.ledger.bounded_look import looking

STATEMENTS = [
    overdue.GROUPS_OF_ALL, overdue.GROUPS_OF_TENANT, overdue.USERS_OF_ALL, overdue.USERS_OF_TENANT,
    sendings.OF_REMINDER, sendings.OF_USER, sendings.OF_WINDOW, sendings.WINDOW,
]  # fmt: skip
GROW = {"due", "reminders", "notification_deliveries", "dead_letters", "delivery_attempts", "pauses"}
GIVEN = {
    "most": 10, "tenant": "t", "user": "u", "soon": 60.0, "window": 300.0, "slow": 1.0, "ours": [], "dispatcher": "main", "away": 180.0,
    "shown": 5, "of_places": [], "id": "01a2b3c4-4d5e-7f60-8a9b-0c1d2e3f4a5b", "since": "2030-01-01Z", "until": "2030-01-02Z",
}  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_no_table_that_grows_is_read_from_end_to_end(world, statement):
    explained = replace(statement, name=f"explain_{statement.name}", sql=f"EXPLAIN (FORMAT TEXT) {statement.sql}")
    with looking(world.database) as ask:
        plan = "\n".join(row[0] for row in ask(explained, **{name: GIVEN[name] for name in statement.types}))
    assert {
        table for table in re.findall(r"Seq Scan on (\w+)", plan) if table in GROW or "attempts_" in table
    } == set(), plan
    # An index without a condition is the whole table too.
    for scan in re.findall(r"Index (?:Only )?Scan using (\w+_pkey) on (\w+).*\n(.*)", plan):
        if scan[1] in GROW:
            assert "Index Cond" in scan[2], plan

"""What `reminders late` and `reminders twice` ask reads what they look for, by its index, and no table that grows."""

import re
from dataclasses import replace

import pytest

from integration.ledger.series_stage import SeriesStage
from integration.ledger.test_ledger_rates import burst
from reminders.ledger import overdue, sendings
from reminders.ledger.bounded_look import looking
from reminders.ledger.erasing_places import UNUSED
from reminders.ledger.walking import REMOVE

STATEMENTS = [
    overdue.GROUPS_OF_ALL, overdue.GROUPS_OF_TENANT, overdue.USERS_OF_ALL, overdue.USERS_OF_TENANT,
    sendings.OF_REMINDER, sendings.OF_USER, sendings.OF_WINDOW, sendings.WINDOW,
]  # fmt: skip
GROW = {"due", "reminders", "series", "notification_deliveries", "dead_letters", "delivery_attempts", "pauses"}
GIVEN = {
    "most": 10, "tenant": "t", "user": "u", "soon": 60.0, "window": 300.0, "slow": 1.0, "ours": [], "dispatcher": "main", "away": 180.0,
    "shown": 5, "of_places": [], "id": "01a2b3c4-4d5e-7f60-8a9b-0c1d2e3f4a5b", "since": "2030-01-01Z", "until": "2030-01-02Z",
}  # fmt: skip


PAUSES = """INSERT INTO reminders.pauses (id, tenant_id, reason, actor, host, ended_at, ended_by, ended_host, released_at)
SELECT gen_random_uuid(), 'other-' || n, 'r', 'a', 'h', now(), 'a', 'h', now() FROM generate_series(1, 300) n"""

SERIES = """INSERT INTO reminders.series SELECT (jsonb_populate_record(s, jsonb_build_object(
    'id', gen_random_uuid(), 'destination_id', gen_random_uuid(), 'identity_key', sha256(n::text::bytea)))).*
FROM reminders.series s CROSS JOIN generate_series(1, 300) n"""


@pytest.fixture
def filled(world):
    """Rows, and statistics that know of them: of an empty table Postgres may well read all through any index."""
    for age in (60, 30):
        burst(world, "t", 300, age=age)
        if age == 60:
            world.called()
    world.sql(PAUSES)
    SeriesStage(world).schedule()
    world.sql(SERIES)
    world.sql("; ".join(f"ANALYZE reminders.{table}" for table in sorted(GROW)))
    return world


@pytest.mark.parametrize("statement", [REMOVE["destinations"], UNUSED], ids=lambda statement: statement.name)
def test_who_has_a_destination_is_found_by_an_index(filled, statement):
    given = {
        "keys": '[["01a2b3c4-4d5e-7f60-8a9b-0c1d2e3f4a5b"]]',
        "keep": 1.0,
        "least": 1.0,
        "now": None,
        "erasure": GIVEN["id"],
    }
    explained = replace(statement, name=f"explain_{statement.name}", sql=f"EXPLAIN (FORMAT TEXT) {statement.sql}")
    with looking(filled.database) as ask:
        plan = "\n".join(row[0] for row in ask(explained, **{each: given[each] for each in statement.types}))
    for table in ("reminders", "series"):
        found = re.findall(rf"Scan using (\w+) on {table} \w+.*\n\s*(Index Cond)?", plan)
        assert found == [(f"{table}_destination", "Index Cond")], plan


def test_no_table_that_grows_is_read_from_end_to_end(filled):
    found = {}
    with looking(filled.database) as ask:
        for statement in STATEMENTS:
            name = statement.name
            explained = replace(statement, name=f"explain_{name}", sql=f"EXPLAIN (FORMAT TEXT) {statement.sql}")
            plan = "\n".join(row[0] for row in ask(explained, **{each: GIVEN[each] for each in statement.types}))
            read = {table for table in re.findall(r"Seq Scan on (\w+)", plan) if table in GROW or "attempts_" in table}
            # An index without a condition is the whole table too.
            for index, table, following in re.findall(r"Index (?:Only )?Scan using (\w+_pkey) on (\w+).*\n(.*)", plan):
                if table in GROW and "Index Cond" not in following:
                    read.add(index)
            if read:
                found[name] = (read, plan)
    assert found == {}

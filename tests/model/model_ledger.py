"""The ledger between two examples: emptied down to its files, and proved to be as it was before the first one.

Rows that are deleted leave their places behind. Rows that wake in the same microsecond are leased in the order of their
places, and a plan may hang on how large a table is or was: both must be the same whatever examples came before.
"""

from __future__ import annotations

from typing import Any

from model.model_clock import START
from model.model_database import ModelDatabase

_SCHEMAS = "('reminders', 'audit', 'model_clock')"
_USED = f"""
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN {_SCHEMAS} AND c.relkind = 'r' AND c.relname <> 'schema_version' AND pg_relation_size(c.oid) > 0
ORDER BY 1"""

# Of an index, only that it is there: its pages are in the order of its keys, whatever their number.
_RELATIONS = f"""
SELECT c.oid::regclass::text, c.relkind::text, c.reloptions::text, s.last_value,
       CASE WHEN c.relkind = 'r' AND c.relname <> 'schema_version'
            THEN ARRAY[pg_relation_size(c.oid)::text, c.relpages::text, c.reltuples::text] END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_sequences s ON s.schemaname = n.nspname AND s.sequencename = c.relname
WHERE n.nspname IN {_SCHEMAS} ORDER BY 1"""
_OPEN = """
SELECT a.backend_type, a.state FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid' AND a.datname = current_database() AND l.pid <> pg_backend_pid()"""


def begin_again(base: ModelDatabase) -> None:
    """Take every row and its place, and begin every count again. Raises `AssertionError` if anything is left over."""
    if used := [name for (name,) in base.sql(_USED)]:
        base.sql(f"TRUNCATE {', '.join(used)}")
    base.wake_idle_connections()
    base.sql("SELECT setval('audit.moves_number_seq', 1, false), setval('model_clock.tick', 1, false)")
    base.sql("INSERT INTO model_clock.hand VALUES (%s)", (START,))
    found = {"relations": base.sql(_RELATIONS), "transactions": base.sql(_OPEN)}
    base.beginning = base.beginning or found
    assert found == base.beginning, f"left over: {_differences(base.beginning, found)}"


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[Any]:
    return [
        each
        for name in before
        for each in (*before[name], *after[name])
        if (each in before[name]) != (each in after[name])
    ]


_TABLES = f"""
SELECT c.oid::regclass::text, ARRAY(
    SELECT quote_ident(a.attname) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname <> ALL(%s)
      AND (a.attnum > 0 OR a.attname = 'ctid' AND c.relname <> 'purges') ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN {_SCHEMAS} AND c.relkind = 'r' AND c.relname <> 'schema_version' ORDER BY 1"""
_PROCESSES = ["transaction", "sent_at", "waits_for"]
"""Columns that name Postgres's own transactions, or the real time. The length of `waits_for` moves the rows of its table."""


def dump(base: ModelDatabase) -> list[str]:
    """Every row of every table and where it lies, as the example has left it."""
    if base.dump is None:
        parts = [
            f"SELECT '{name} ' || row({', '.join(columns)})::text AS line FROM {name}"
            for name, columns in base.sql(_TABLES, (_PROCESSES,))
        ]
        base.dump = " UNION ALL ".join(parts)
    return [line for (line,) in base.sql(f"SELECT line FROM ({base.dump}) d ORDER BY line")]

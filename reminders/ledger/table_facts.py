"""What the ledger's tables and rows say about how they are looked after. It must be at this release's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.schema_version import VERSION_TABLE
from reminders.ledger.statement import Statement
from reminders.ledger.status import MISSING_PARTITIONS

LOOKED_AT_CHANNELS = 1000
"""Live reminders, the next ones due, whose channels are taken for those in use."""

TABLES = Statement(
    "table_facts",
    """
SELECT c.relname, c.relkind = 'p', COALESCE(c.reloptions, '{}'),
       concat(CASE WHEN has_table_privilege(c.oid, 'SELECT') THEN 'r' END, CASE WHEN has_table_privilege(c.oid, 'INSERT') THEN 'a' END,
              CASE WHEN has_table_privilege(c.oid, 'UPDATE') THEN 'w' END, CASE WHEN has_table_privilege(c.oid, 'DELETE') THEN 'd' END),
       pg_has_role(c.relowner, 'USAGE'), c.relpersistence = 'p',
       COALESCE(s.n_live_tup, 0), COALESCE(s.n_dead_tup, 0),
       extract(epoch FROM clock_timestamp() - GREATEST(s.last_autovacuum, s.last_vacuum))::float8
FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relnamespace = to_regnamespace('{s}') AND c.relkind IN ('r', 'p')
ORDER BY c.relname
""",
    {},
)

INDEXES = Statement(
    "index_facts",
    """
SELECT i.relname, x.indisvalid AND x.indisready AND x.indislive, x.indisunique
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
WHERE t.relnamespace = to_regnamespace('{s}') AND NOT t.relispartition AND t.relkind IN ('r', 'p')
ORDER BY i.relname
""",
    {},
)

RIGHTS = Statement(
    "schema_rights",
    """
SELECT has_schema_privilege('{s}', 'USAGE'), has_schema_privilege('{s}', 'CREATE'),
       ARRAY(SELECT p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace('{s}') AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1),
       ARRAY(SELECT DISTINCT p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace('{s}')),
       ARRAY(SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace('{s}') AND c.relkind = 'v'),
       ARRAY(SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace('{s}') AND c.relispartition)
""",
    {},
)

ROWS = Statement(
    "row_facts",
    """
SELECT (SELECT extract(epoch FROM clock_timestamp() - last_at)::float8 FROM {s}.ticks WHERE name = 'scan_due'),
       EXISTS (SELECT 1 FROM {s}.delivery_attempts_default),
       ARRAY(SELECT name FROM {s}.known_zones),
       ARRAY(SELECT DISTINCT key_fingerprint FROM {s}.secrets
             WHERE key_fingerprint IS NOT NULL AND (retires_at IS NULL OR retires_at > clock_timestamp()) ORDER BY 1),
       ARRAY(SELECT DISTINCT r.channel FROM (SELECT id FROM {s}.due ORDER BY wake_at LIMIT :live) d JOIN {s}.reminders r USING (id) ORDER BY 1)
""",
    {"live": "integer"},
)


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `rights` are our role's, as Postgres writes them: r read, a insert, w update, d delete."""

    partitioned: bool
    options: Mapping[str, str]
    rights: str
    ours: bool
    """Whether our role owns it."""
    logged: bool
    """Whether a crash leaves its rows."""
    live: int
    dead: int
    vacuumed_ago: float | None
    """Seconds since the last vacuum; None if there was none since the statistics were begun."""


@dataclass(frozen=True, slots=True)
class Index:
    """One index. An invalid one is kept up, or not even that, and nobody looks into it."""

    valid: bool
    unique: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The tables, and what our role may do in the schema. Asking takes no right to them."""

    tables: Mapping[str, Table]
    indexes: Mapping[str, Index]
    may_use: bool
    may_create: bool
    closed_functions: tuple[str, ...]
    """Functions of the schema that our role may not call."""
    functions: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    """Those of any table, by name."""


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What a few rows say."""

    tick_age: float | None
    """Seconds since beat's last tick; None if there was none."""
    missing_months: tuple[str, ...]
    """Partitions of this month and the next that are not there."""
    in_default: bool
    """Whether attempts lie in the DEFAULT partition."""
    zones: frozenset[str]
    key_fingerprints: tuple[str, ...]
    """Of the keys under which secrets are kept that sign."""
    channels: tuple[str, ...]
    """Of the reminders that are due next."""


def read_tables(database: Database) -> TableFacts:
    """Ask about the tables. Raises `DATABASE_AWAY`."""
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, TABLES)
        indexes = {name: Index(valid, unique) for name, valid, unique in fetch(connection, database.schema, INDEXES)}
        ((may_use, may_create, closed, *names),) = fetch(connection, database.schema, RIGHTS)
    tables = {
        name: Table(partitioned, dict(option.split("=", 1) for option in options), *rest)
        for name, partitioned, options, *rest in rows
        if name != VERSION_TABLE
    }
    return TableFacts(tables, indexes, may_use, may_create, tuple(closed), *(frozenset(each) for each in names))


def read_rows(database: Database) -> RowFacts:
    """Ask the ledger. Raises `DATABASE_AWAY`, and `psycopg2.errors.InsufficientPrivilege` where our role may not look."""
    with database.transaction() as connection:
        run = partial(fetch, connection, database.schema)
        ((tick_age, in_default, zones, keys, channels),) = run(ROWS, live=LOOKED_AT_CHANNELS)
        missing = run(MISSING_PARTITIONS, ahead=1)
    months = tuple(name for name, _, _ in missing)
    return RowFacts(tick_age, months, in_default, frozenset(zones), tuple(keys), tuple(channels))

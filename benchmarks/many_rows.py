"""Ledgers with millions of live reminders, written by SQL: the application's way would take an hour.

Rows have the columns and lengths of life. Number N has the id N, is tenant N modulo the tenants', and goes to one of a
thousand destinations in one to ninety-one days. Indexes are built after the rows, as after a REINDEX.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reminders.ledger.database import Database

TABLES = ["reminders.reminders", "reminders.due"]
ID = "lpad(to_hex(n), 32, '0')::uuid"
KEY = "'dk_' || encode(sha256(('d' || n)::bytea), 'hex')"
DESTINATION = "md5('d' || mod(n, 1000))::uuid"
DUE_AT = "now() + interval '1 day' + mod(n * 7919, 7776000) * interval '1 second'"
REMINDERS = f"""
INSERT INTO reminders.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference, data,
    due_at, identity_key, request_hash, delivery_key)
SELECT {ID}, 'tenant-' || mod(n, %(tenants)s), 'user-' || mod(n, 1000000), 'appointment', 'webhook', 'https://hooks.example.com/' || mod(n, 1000),
       {DESTINATION}, true, 'booking-' || n,
       jsonb_build_object('order', n, 'note', 'a line of some forty characters, as in life'), {DUE_AT},
       sha256(('i' || n)::bytea), sha256('r'), {KEY}
FROM generate_series(1::bigint, %(rows)s) n"""
DUE = f"""
INSERT INTO reminders.due (id, lane, destination_id, wake_at, status, delivery_key)
SELECT {ID}, 'tenant-' || mod(n, %(tenants)s), {DESTINATION}, {DUE_AT}, 'pending', {KEY}
FROM generate_series(1::bigint, %(rows)s) n"""
DUE_NOW = f"""
INSERT INTO reminders.due (id, lane, destination_id, wake_at, status, delivery_key)
SELECT {ID}, 'tenant-' || mod(n, %(tenants)s), {DESTINATION}, clock_timestamp() - interval '1 second', 'pending', {KEY}
FROM generate_series(%(first)s::bigint, %(last)s) n"""
_MINE = "id BETWEEN lpad(to_hex(%(first)s::bigint), 32, '0')::uuid AND lpad(to_hex(%(last)s::bigint), 32, '0')::uuid"
MOVES = (
    f"UPDATE reminders.due SET status = 'leased', lease_token = gen_random_uuid(), wake_at = clock_timestamp() + interval '60 s' WHERE {_MINE}",
    f"UPDATE reminders.due SET status = 'published', published_at = clock_timestamp(), wake_at = clock_timestamp() + interval '120 s' WHERE {_MINE}",
    f"UPDATE reminders.due SET status = 'sending', wake_at = clock_timestamp() + interval '30 s' WHERE {_MINE}",
    f"DELETE FROM reminders.due WHERE {_MINE}",
)
"""What becomes of a row in `due` from its lease to its end, many rows at once."""
CHUNK = 10_000


def fill(database: Database, rows: int, tenants: int) -> None:
    """Schedule `rows` reminders for the coming months."""
    given = {"rows": rows, "tenants": tenants}
    with _writing(database) as cursor, _without_indexes(cursor):
        cursor.execute(REMINDERS, given)
        cursor.execute(DUE, given)
    vacuum(database)


def add_due(database: Database, first: int, rows: int, tenants: int) -> None:
    """`rows` more, from number `first` on, that are due now; in `due` alone, which is all that a scan looks at."""
    with _writing(database) as cursor:
        cursor.execute(DUE_NOW, {"first": first, "last": first + rows - 1, "tenants": tenants})


def move(database: Database, first: int, moves: int, tenants: int) -> None:
    """Let others come and go, from number `first` on, until rows have moved so often: four times each."""
    for start in range(first, first + moves // 4, CHUNK):
        rows = min(CHUNK, first + moves // 4 - start)
        add_due(database, start, rows, tenants)
        for statement in MOVES:
            with _writing(database) as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")
                cursor.execute(statement, {"first": start, "last": start + rows - 1})


def vacuum(database: Database) -> None:
    """Vacuum and analyse what a scan looks at."""
    with database.transaction() as connection:
        # Neither runs inside a transaction, and ours has done nothing yet.
        connection.cursor().execute("COMMIT")
        for table in TABLES:
            connection.cursor().execute(f"VACUUM (ANALYZE) {table}")
        connection.cursor().execute("BEGIN")


@contextmanager
def _writing(database: Database) -> Iterator[Any]:
    with database.transaction() as connection, connection.cursor() as cursor:
        # No look for the reminder of each row of `due`, nor for a disk.
        cursor.execute("SET LOCAL session_replication_role = replica; SET LOCAL synchronous_commit = off")
        yield cursor


@contextmanager
def _without_indexes(cursor: Any) -> Iterator[None]:
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = ANY(%s::regclass[]) AND NOT indisprimary",
        (TABLES,),
    )
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f"DROP INDEX {name}")
    yield
    cursor.execute("SET LOCAL maintenance_work_mem = '256MB'; SET LOCAL max_parallel_maintenance_workers = 0")
    for _, definition in indexes:
        cursor.execute(definition)

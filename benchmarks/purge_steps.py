"""How fast a purge is, and how long one of its steps holds the rows that it marks or deletes.

Run: .venv/bin/python benchmarks/purge_steps.py [--rows 200000] [--live 100000]

Starts a Postgres of its own in a temporary folder and fills it by SQL: `--rows` reminders that ended 100 days ago, each
with a delivery and an attempt, and `--live` that are due in months. Then two passes: one marks, one deletes. A step's
time is that of its whole transaction, commit included.
"""

from __future__ import annotations

import argparse
import time

from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger import purging
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.operate import retention

FILL = """
INSERT INTO reminders.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates,
    reference, due_at, status, identity_key, request_hash, delivery_key, created_at, finished_at)
SELECT lpad(to_hex(n), 32, '0')::uuid, 'tenant-' || n % 50, 'user-' || n % 50000, 'appointment', 'webhook', 'https://hooks.example.com/' || n % 1000,
    gen_random_uuid(), true, 'booking-' || n, now() + {due}, {status}, sha256(('i' || n)::bytea), sha256('r'), 'dk_' || encode(sha256(('d' || n)::bytea), 'hex'),
    now() - interval '101 days', {ended}
FROM generate_series({first}, {last}) n"""
DUE = """INSERT INTO reminders.due (id, lane, wake_at, status, delivery_key)
SELECT id, tenant_id, due_at, 'pending', delivery_key FROM reminders.reminders WHERE status = 'live'"""
DELIVERIES = """INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
    claimed_until, worker, on_unknown, body_format, finished_at)
SELECT delivery_key, id, 'delivered', 1, gen_random_uuid(), finished_at, finished_at + interval '30 s', 'w', 'repeat', 1, finished_at
FROM reminders.reminders WHERE status = 'delivered'"""
ATTEMPTS = """INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
SELECT delivery_key, 1, claimed_at, reminder_id, 'w', 'delivered', '', '', 'done' FROM reminders.notification_deliveries"""


def fill(database: Database, rows: int, live: int) -> None:
    old = {"due": "interval '-100 days'", "status": "'delivered'", "ended": "now() - interval '100 days'"}
    new = {"due": "interval '100 days'", "status": "'live'", "ended": "NULL"}
    statements = [
        FILL.format(first=1, last=rows, **old),
        FILL.format(first=rows + 1, last=rows + live, **new),
        DUE,
        DELIVERIES,
        ATTEMPTS,
        "ANALYZE reminders.reminders, reminders.due, reminders.notification_deliveries, reminders.delivery_attempts",
    ]
    for statement in statements:
        with database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(statement)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Read the head of this file.")
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--live", type=int, default=100_000)
    given = arguments.parse_args()
    took: list[float] = []

    def timed(*arguments: object) -> purging.Step:
        begun = time.perf_counter()
        done = purging.step(*arguments)  # type: ignore[arg-type]
        took.append(time.perf_counter() - begun)
        return done

    retention.step = timed  # type: ignore[attr-defined]
    with throwaway_home("benchmark") as home, running(home) as services:
        migrate(services.database_url, "reminders")
        database = Database(services.database_url, schema="reminders")
        make_partitions(database)
        fill(database, given.rows, given.live)
        for _ in range(2):
            took.clear()
            begun = time.perf_counter()
            done = retention.purge(database, 90 * 86400.0)
            wall = time.perf_counter() - begun
            took.sort()
            print(
                f"{done.marked:,} marked, {done.purged:,} purged in {wall:.1f} s, {(done.marked + done.purged) / wall:,.0f}/s; "
                f"{len(took)} steps, median {took[len(took) // 2] * 1e3:.0f} ms, 99 % up to {took[len(took) * 99 // 100] * 1e3:.0f} ms, longest {took[-1] * 1e3:.0f} ms",
                flush=True,
            )
        with database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_total_relation_size('reminders.keys_seen')")
            (size,) = cursor.fetchone() or (0,)
        print(f"keys_seen: {size / given.rows:.0f} bytes a reminder")
        database.close()


if __name__ == "__main__":
    main()

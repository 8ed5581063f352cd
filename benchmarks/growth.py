"""How a ledger grows in a week of a million deliveries a day: sizes, dead rows, what autovacuum does, and bloat at the end.

    python -m benchmarks.growth [--scale 0.1] [--days 7] [--json FILE] [--quick]

Each simulated day as many reminders are scheduled as are delivered, a week ahead, so that the number of live ones stays the same. Rows
are written by SQL as the pipeline's moves write them: scheduled, leased and published 500 at a time, claimed and ended 64 at a time. What is
due together was not scheduled together: each batch is dealt out over the day's rows. A day takes seconds, so autovacuum is let look once a second instead of once a minute: still rarer, for what happens meanwhile, than in
life. At the end every table is rewritten (VACUUM FULL) to see how much of it was needed.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import arguments, hand_over, tell
from benchmarks.many_rows import DESTINATION, ID, KEY, fill
from benchmarks.stored import ledger
from reminders.ledger.database import Database

PER_DAY = 1_000_000
AHEAD_DAYS = 7
CHUNK = 500
"""Rows of one lease."""
PARTS = 8
"""In which they are claimed and ended: about as many at once as there are slots."""
TABLES = ("due", "reminders", "notification_deliveries", "delivery_attempts")
MINE = "id = ANY(ARRAY(SELECT lpad(to_hex(n), 32, '0')::uuid FROM generate_series(%(first)s::bigint, %(last)s, %(step)s) n))"
SCHEDULE = f"""
WITH made AS (
    INSERT INTO reminders.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference, data,
        due_at, identity_key, request_hash, delivery_key)
    SELECT {ID}, 'tenant-' || mod(n, 50), 'user-' || mod(n, 1000000), 'appointment', 'webhook', 'https://hooks.example.com/' || mod(n, 1000),
           {DESTINATION}, true, 'booking-' || n,
           jsonb_build_object('order', n, 'note', 'a line of some forty characters, as in life'),
           clock_timestamp() + interval '7 days', sha256(('i' || n)::bytea), sha256('r'), {KEY}
    FROM generate_series(%(first)s::bigint, %(last)s) n RETURNING id, tenant_id, destination_id, due_at, delivery_key
)
INSERT INTO reminders.due (id, lane, destination_id, wake_at, status, delivery_key)
SELECT id, tenant_id, destination_id, due_at, 'pending', delivery_key FROM made"""
TO_THE_BROKER = (
    f"UPDATE reminders.due SET status = 'leased', lease_token = gen_random_uuid(), wake_at = clock_timestamp() + interval '60 s' WHERE {MINE}",
    f"UPDATE reminders.due SET status = 'published', published_at = clock_timestamp(), wake_at = clock_timestamp() + interval '120 s' WHERE {MINE}",
)
FROM_CLAIM_TO_END = (
    f"""WITH claimed AS (
            UPDATE reminders.due SET status = 'sending', wake_at = clock_timestamp() + interval '30 s' WHERE {MINE} RETURNING id, delivery_key
        )
        INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
            claimed_until, worker, on_unknown, body_format, budget_started_at)
        SELECT delivery_key, id, 'sending', 1, gen_random_uuid(), clock_timestamp(), clock_timestamp() + interval '30 s',
               'worker-1.example.com:12345:abcdef01', 'repeat', 1, clock_timestamp() FROM claimed""",
    f"""WITH gone AS (
            DELETE FROM reminders.due WHERE {MINE} RETURNING id, delivery_key
        ), delivery AS (
            UPDATE reminders.notification_deliveries n SET status = 'delivered', finished_at = clock_timestamp(), body_hash = sha256('b'),
                provider_reference = '200'
            FROM gone WHERE n.delivery_key = gone.delivery_key RETURNING n.*
        ), attempt AS (
            INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code,
                error_class, reason, duration_ms, decision)
            SELECT delivery_key, 1, claimed_at, reminder_id, worker, 'delivered', 200, '', '', 12, 'done' FROM delivery
        )
        UPDATE reminders.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = clock_timestamp()
        FROM gone WHERE r.id = gone.id""",
)
SIZES = """
SELECT c.relname, sum(pg_table_size(part.relid))::bigint, sum(pg_indexes_size(part.relid))::bigint, sum(s.n_dead_tup)::bigint,
       sum(s.autovacuum_count)::bigint, sum(s.n_tup_upd)::bigint, sum(s.n_tup_hot_upd)::bigint
FROM pg_class c CROSS JOIN LATERAL (
    SELECT c.oid::regclass AS relid UNION SELECT tree.relid FROM pg_partition_tree(c.oid) tree
) part LEFT JOIN pg_stat_user_tables s ON s.relid = part.relid
WHERE c.oid = ANY(%s::regclass[]) GROUP BY c.relname"""
MB = 2**20


def run(database: Database, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off; SET LOCAL enable_seqscan = off")
        cursor.execute(statement, given)
        return cursor.fetchall() if cursor.description else []


def outside(database: Database, statement: str) -> None:
    """What runs in no transaction."""
    with database.transaction() as connection:
        connection.cursor().execute("COMMIT")
        connection.cursor().execute(statement)
        connection.cursor().execute("BEGIN")


def day(database: Database, delivered: int, scheduled: int, count: int) -> None:
    """Numbers from `delivered` on are delivered, and as many scheduled from `scheduled` on."""
    every = max(1, count // CHUNK)
    last = delivered + count - 1
    for turn in range(every):
        start = scheduled + turn * count // every
        run(database, SCHEDULE, {"first": start, "last": scheduled + (turn + 1) * count // every - 1})
        for move in TO_THE_BROKER:
            run(database, move, {"first": delivered + turn, "last": last, "step": every})
        for part in range(PARTS):
            for move in FROM_CLAIM_TO_END:
                run(database, move, {"first": delivered + turn + part * every, "last": last, "step": every * PARTS})


def sizes(database: Database) -> dict[str, tuple[int, ...]]:
    rows = run(database, SIZES, ([f"reminders.{table}" for table in TABLES],))
    return {name: tuple(int(each or 0) for each in figures) for name, *figures in rows}


def measure(database: Database, scale: float, days: int) -> list[dict[str, Any]]:
    count = int(PER_DAY * scale)
    outside(database, "ALTER SYSTEM SET autovacuum_naptime = '1s'")
    run(database, "SELECT pg_reload_conf()")
    fill(database, AHEAD_DAYS * count, 50)
    found = []
    for number in range(days + 1):
        begun = time.monotonic()
        if number:
            day(database, (number - 1) * count + 1, (AHEAD_DAYS + number - 1) * count + 1, count)
        now = sizes(database)
        found.append(
            {
                "day": number, "seconds": round(time.monotonic() - begun),
                **{f"{table.rpartition('_')[2]} MB": round((now[table][0] + now[table][1]) / MB, 1) for table in TABLES},
                "dead in due": now["due"][2], "vacuums of due": now["due"][3],
            }
        )  # fmt: skip
        tell(found[-1])
    return found + at_the_end(database, sizes(database))


def at_the_end(database: Database, used: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """How much of each table was needed."""
    found = []
    for table in TABLES:
        outside(database, f"VACUUM FULL reminders.{table}")
        needed = sizes(database)[table]
        heap, indexes, _, vacuums, updates, hot = used[table]
        found.append(
            {
                "table": table, "rows MB": round(heap / MB, 1), "indexes MB": round(indexes / MB, 1),
                "rewritten rows MB": round(needed[0] / MB, 1), "rewritten indexes MB": round(needed[1] / MB, 1),
                "bloat": round((heap + indexes) / max(1, needed[0] + needed[1]), 2),
                "HOT updates": f"{hot / updates:.0%}" if updates else None, "autovacuums": vacuums,
            }
        )  # fmt: skip
        tell(found[-1])
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--days", type=int, default=7)
    given = parser.parse_args()
    scale, days = (0.001, 2) if given.quick else (given.scale, given.days)
    with ledger() as database:
        found = measure(database, scale, days)
    settings = (
        f"{int(PER_DAY * scale):,} deliveries a simulated day, {scale:g} of a million; a week of them is scheduled ahead. MB with indexes. "
        "Autovacuum looks once a second."
    )
    hand_over("growth", found, settings, given.json)


if __name__ == "__main__":
    main()

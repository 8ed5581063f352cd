"""How long it takes to redrive ten thousand dead letters.

    python -m benchmarks.redrive_many [--letters 10000] [--others 100000] [--json FILE] [--quick]

A ledger with so many dead reminders, each with a delivery, an attempt and an open letter, and so many others that live, is written by SQL.
Then `redrive` is called as the command calls it: all at once, and all at once at a rate. One action is one transaction.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import arguments, hand_over, tell
from benchmarks.many_rows import fill, vacuum
from benchmarks.stored import ledger, postgres_seconds
from reminders.ledger.closing_letters import redrive
from reminders.ledger.database import Database
from reminders.ledger.review import LetterFilter

DEAD = (
    """UPDATE reminders.reminders SET status = 'dead', finished_at = clock_timestamp(), last_outcome = 'rejected'
       WHERE id <= lpad(to_hex(%(letters)s::bigint), 32, '0')::uuid""",
    "DELETE FROM reminders.due d USING reminders.reminders r WHERE r.id = d.id AND r.status = 'dead'",
    """INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
           claimed_until, worker, on_unknown, body_format, letter_kind, budget_started_at, finished_at)
       SELECT delivery_key, id, 'dead', 1, gen_random_uuid(), finished_at, finished_at + interval '30 s', 'w', 'repeat', 1, 'destination',
              finished_at, finished_at
       FROM reminders.reminders WHERE status = 'dead' ON CONFLICT (delivery_key) DO UPDATE
       SET status = 'dead', letter_kind = 'destination', finished_at = EXCLUDED.finished_at, retry_at = NULL""",
    """INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code,
           error_class, reason, decision)
       SELECT delivery_key, claim_number, claimed_at, reminder_id, 'w', 'rejected', 404, 'http_404', 'not found', 'dead letter: destination'
       FROM reminders.notification_deliveries WHERE status = 'dead' ON CONFLICT DO NOTHING""",
    """INSERT INTO reminders.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
       SELECT gen_random_uuid(), id, delivery_key, 'destination', 'http_404', 'not found', 1
       FROM reminders.reminders WHERE status = 'dead'""",
)


def end(database: Database, letters: int) -> None:
    """The first so many of the ledger are dead, with open letters."""
    with database.transaction() as connection, connection.cursor() as cursor:
        for statement in DEAD:
            cursor.execute(statement, {"letters": letters})
    vacuum(database)


def measure(database: Database, letters: int, rate: float | None) -> dict[str, Any]:
    end(database, letters)
    server, own, clock = postgres_seconds(database), time.process_time(), time.perf_counter()
    answer = redrive(
        database, LetterFilter(), actor="benchmark", reason="benchmark", limit=letters, rate=rate, checked=True
    )
    wall, own = time.perf_counter() - clock, time.process_time() - own
    assert len(answer.done) == letters, answer
    server = postgres_seconds(database) - server
    return {
        "redriven": letters, "at a rate": rate is not None, "seconds": round(wall, 2), "per second": round(letters / wall),
        "caller µs": round(own / letters * 1e6, 1), "Postgres µs": round(server / letters * 1e6, 1),
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--letters", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=100_000)
    given = parser.parse_args()
    letters, others = (200, 1_000) if given.quick else (given.letters, given.others)
    found = []
    with ledger() as database:
        fill(database, letters + others, 50)
        for rate in (None, 100.0):
            found.append(measure(database, letters, rate))
            tell(found[-1])
    hand_over(
        "redrive_many",
        found,
        f"Among {others:,} other live reminders of 50 tenants; one action is one transaction.",
        given.json,
    )


if __name__ == "__main__":
    main()

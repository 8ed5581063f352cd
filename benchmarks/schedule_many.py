"""How fast an application schedules through the API: one by one, and in calls of up to a thousand.

    python -m benchmarks.schedule_many [--count 20000] [--json FILE] [--quick]

Each call is in a transaction of its own that is committed, over one connection. References, users and addresses are as many as
in `import_rate`. CPU is the calling process's and that of the whole Postgres.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.figures import arguments, hand_over, tell
from benchmarks.stored import ledger, postgres_seconds
from reminders import schedule_many
from reminders.ledger.database import Database

AT_ONCE = (1, 100, 1000)


def wanted(first: int, count: int) -> list[dict[str, Any]]:
    start = datetime.now(UTC) + timedelta(days=1)
    return [
        {
            "tenant_id": f"tenant-{n % 50}", "user_id": f"user-{n * 7919 % 50_000}", "kind": "appointment", "channel": "webhook",
            "destination": f"https://hooks.example.com/{n % 1000}", "due_at": start + timedelta(seconds=n), "reference": f"booking-{n}",
            "data": {"template": "appointment-v3", "booking": f"b{n}", "n": n},
        }
        for n in range(first, first + count)
    ]  # fmt: skip


def measure(database: Database, at_once: int, first: int, count: int) -> dict[str, Any]:
    rows = wanted(first, count)
    server, own, clock = postgres_seconds(database), time.process_time(), time.perf_counter()
    for start in range(0, count, at_once):
        with database.transaction() as connection:
            answers = schedule_many(connection, rows[start : start + at_once])
        assert all(each.created for each in answers)
    wall, own = time.perf_counter() - clock, time.process_time() - own
    server = postgres_seconds(database) - server
    return {
        "in a call": at_once, "scheduled": count, "per second": round(count / wall),
        "caller µs": round(own / count * 1e6, 1), "Postgres µs": round(server / count * 1e6, 1),
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    given = parser.parse_args()
    count = 300 if given.quick else given.count
    os.environ.update(REMINDERS_WEBHOOK_SECRET="benchmark-secret-0123456789abcdef")
    found = []
    with ledger() as database:
        measure(database, 100, 0, 100)  # statements are planned once
        first = 100
        for at_once in AT_ONCE:
            size = count // 4 if at_once == 1 else count
            found.append(measure(database, at_once, first, size))
            first += size
            tell(found[-1])
    hand_over(
        "schedule_many",
        found,
        "One connection; each call is committed by itself; caller and server share the machine.",
        given.json,
    )


if __name__ == "__main__":
    main()

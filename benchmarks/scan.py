"""What a scan costs: a tick when nothing is due, and each row that is leased and published. On Linux.

    python -m benchmarks.scan [--rows N]... [--tenants N]... [--moves 1000000] [--due 5000] [--json FILE] [--quick]

For every number of live reminders and of tenants a ledger of its own is filled by SQL (see `many_rows`) and looked at three
times: fresh; after so many moves of other rows, without a vacuum; and after as many more while an old transaction is open, so
that nothing of what they left can be taken away. The scan is the shipped one with the shipped settings, on real servers; nobody
takes its messages, so what is published is removed after each pass, unmeasured.

An idle tick is a pass with everything that comes once a second in it: what a pause holds, series, news, and the look. Database
time is the processor time of the backend that serves the scan; wall times hold what others do to the machine.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import redis

from benchmarks.figures import arguments, hand_over, quantile, tell
from benchmarks.many_rows import add_due, fill, move, vacuum
from reminders.bootstrap import open_database, scan_ledger_of, scan_of
from reminders.celery_options import KEY_PREFIX
from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.pipeline.scan import Scan
from reminders.settings import Secret, Settings, load

ROWS = (10_000, 1_000_000, 10_000_000)
TENANTS = (1, 10_000)
TICKS = 200
FOR_TICKS = 15.0
"""Seconds after which no more ticks are measured, once there are ten."""
LEASING = {"lease", "lease_from_lanes", "in_flight", "set_aside"}
MARKING = {"mark_published_if_leased"}
WALK = "lanes_with_due_work"
QUEUE = f"{KEY_PREFIX}deliver"


class Timed:
    """A scan's ledger, with the database time and the calls of each of its methods."""

    def __init__(self, ledger: Any, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self.spent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)

        def timed(*given: Any, **named: Any) -> Any:
            begun = self._clock()
            try:
                return method(*given, **named)
            finally:
                self.spent[name] += self._clock() - begun  # type: ignore[assignment] - a Counter of seconds
                self.calls[name] += 1

        return timed


@dataclass
class Bench:
    """One ledger, and the one connection that its scan uses."""

    database: Database
    settings: Settings
    broker: redis.Redis
    tenants: int
    ticks: int
    due: int
    next_row: int

    def __post_init__(self) -> None:
        self._scanners = open_database(self.settings, pool_size=1)
        with self._scanners.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._stat = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")

    def database_time(self) -> float:
        """Seconds for which the scan's backend has run."""
        return int(self._stat.read_text().split()[0]) / 1e9

    def scan(self) -> tuple[Scan, Timed]:
        ledger = Timed(scan_ledger_of(self.settings, self._scanners), self.database_time)
        return scan_of(self.settings, ledger), ledger  # type: ignore[arg-type] - it stands for all its methods

    def idle(self) -> dict[str, Any]:
        spent: list[float] = []
        wall: list[float] = []
        end = time.monotonic() + FOR_TICKS
        while len(spent) < self.ticks and (len(spent) < 10 or time.monotonic() < end):
            scan, _ = self.scan()  # a fresh one: with all that comes once a second
            begun, clock = self.database_time(), time.perf_counter()
            done = scan.once()
            wall.append((time.perf_counter() - clock) * 1e3)
            spent.append((self.database_time() - begun) * 1e3)
            assert done.leased == 0
        first, *later = spent
        return {
            "first tick ms": round(first, 2), "tick ms": round(quantile(later, 0.5), 2), "99 % ms": round(quantile(later, 0.99), 2),
            "tick wall ms": round(quantile(wall[1:], 0.5), 2),
        }  # fmt: skip

    def busy(self) -> dict[str, Any]:
        add_due(self.database, self.next_row, self.due, self.tenants)
        self.next_row += self.due
        scan, ledger = self.scan()
        leased, published, wall, own = 0, 0, 0.0, 0.0
        while published < self.due:
            clock, cpu = time.perf_counter(), time.process_time()
            done = scan.once()
            wall, own = wall + time.perf_counter() - clock, own + time.process_time() - cpu
            leased, published = leased + done.leased, published + done.published
            self._take()
        return {
            "leased row µs": round(sum(ledger.spent[name] for name in LEASING) / leased * 1e6, 1),
            "published row µs": round(sum(ledger.spent[name] for name in MARKING) / published * 1e6, 1),
            "walk of lanes ms": round(ledger.spent[WALK] / ledger.calls[WALK] * 1e3, 1) if ledger.calls[WALK] else None,
            "scanner row µs": round(own / published * 1e6, 1),
            "rows/s": round(published / wall),
        }  # fmt: skip

    def _take(self) -> None:
        self.broker.delete(QUEUE)
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; DELETE FROM reminders.due WHERE status = 'published'")

    def let_move(self, moves: int) -> None:
        move(self.database, self.next_row, moves, self.tenants)
        self.next_row += moves // 4

    @contextmanager
    def old_transaction(self) -> Iterator[None]:
        """One that sees the ledger as it is now, for the block."""
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SET LOCAL idle_in_transaction_session_timeout = 0; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
            )
            cursor.execute("SELECT count(*) FROM reminders.ticks")
            yield

    def close(self) -> None:
        self._scanners.close()


def looked_at(bench: Bench, moves: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The three states, one after the other."""
    bench.busy()  # tenants are met once, statements are prepared
    vacuum(bench.database)
    yield "fresh", {**bench.idle(), **bench.busy()}
    bench.let_move(moves)
    yield f"after {moves:,} moves without vacuum", {**bench.idle(), **bench.busy()}
    vacuum(bench.database)
    with bench.old_transaction():
        bench.let_move(moves)
        yield f"after {moves:,} moves, old transaction open", {**bench.idle(), **bench.busy()}


def measure(rows: int, tenants: int, moves: int, ticks: int, due: int) -> list[dict[str, Any]]:
    found = []
    with throwaway_home("benchmark") as home, running(home) as services:
        environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
        settings = replace(
            load(environ), database_url=Secret(services.database_url), redis_url=Secret(services.redis_url)
        )
        migrate(services.database_url, "reminders")
        database = open_database(settings, pool_size=3)
        make_partitions(database)
        with database.transaction() as connection:
            connection.cursor().execute("ALTER TABLE reminders.due SET (autovacuum_enabled = off)")
        begun = time.monotonic()
        fill(database, rows, tenants)
        print(f"{rows:,} rows of {tenants:,} tenants written in {time.monotonic() - begun:.0f} s", flush=True)
        bench = Bench(database, settings, redis.Redis.from_url(services.redis_url), tenants, ticks, due, rows + 1)
        try:
            for state, figures in looked_at(bench, moves):
                found.append({"live rows": rows, "tenants": tenants, "ledger": state, **figures})
                tell(found[-1])
        finally:
            bench.close()
            database.close()
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--tenants", type=int, action="append")
    parser.add_argument("--moves", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=5_000)
    given = parser.parse_args()
    sizes, tenants, moves, ticks, due = given.rows or ROWS, given.tenants or TENANTS, given.moves, TICKS, given.due
    if given.quick:
        sizes, tenants, moves, ticks, due = (2_000,), (20,), 2_000, 10, 300
    found = [row for rows in sizes for each in tenants for row in measure(rows, each, moves, ticks, due)]
    settings = (
        f"{ticks} ticks or as many as fit into {FOR_TICKS:g} s, {due:,} rows leased and published in each state, shipped settings: at most 256 in flight, so in batches of "
        "up to 256. Milliseconds and µs are the database backend's processor time; `scanner row` is the scanner's own, publishing included"
    )
    hand_over("scan", found, settings, given.json)


if __name__ == "__main__":
    main()

"""Whether purging a million reminders keeps anybody waiting: for a lock, or for the machine.

    python -m benchmarks.purge_million [--rows 1000000] [--live 100000]

Starts a Postgres of its own in a temporary folder and fills it by SQL as `purge_steps.py` does: `--rows` reminders that ended 100
days ago, each with a delivery and an attempt in a month of its own, and `--live` that are due in months. Meanwhile, as
applications, scanners and workers do, other connections schedule, lease, claim, record outcomes, cancel, and lock ended
reminders just where the purge is (`reschedule` does that). First without a purge, to compare; then beside the two passes of
one. What is told: how long each of these took; how long the longest step held its locks, by the purge's own clock; and the longest
wait for any lock that Postgres knew of, looked for every five milliseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg2
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

from benchmarks.figures import arguments, hand_over, quantile, tell
from benchmarks.purge_steps import fill
from benchmarks.stored import ledger
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered
from reminders.ledger import purging
from reminders.ledger.changing import cancel
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import Database
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.scheduling import ScheduledReminder, insert
from reminders.operate import retention
from reminders.pipeline.ports import Report
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

BEFORE = 20.0
"""Seconds of the comparison."""
PROBES = ("schedule", "cancel", "lease", "claim", "record outcome", "lock an ended one")
PAUSE = 0.02
"""Seconds between two rounds of a probe: it is there to wait, not to load the machine."""
MONTH = """CREATE TABLE reminders.delivery_attempts_{0:%Y_%m} PARTITION OF reminders.delivery_attempts FOR VALUES FROM ('{0:%Y-%m}-01Z') TO ('{1:%Y-%m}-01Z')"""
WAITS = "SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) FROM pg_locks WHERE NOT granted AND waitstart IS NOT NULL"
AHEAD = """SELECT r.id FROM reminders.reminders r
WHERE r.id > COALESCE((SELECT reached FROM reminders.purges WHERE ended_at IS NULL ORDER BY started_at DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')
  AND r.status <> 'live' ORDER BY r.id LIMIT 100"""


class Probes:
    """Threads that do over and over what others do with the ledger, and note how long each of it took."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self.took: dict[str, list[float]] = {}
        self.waited = 0.0

    def start(self) -> None:
        for work in (self._pipeline, self._ended, self._watch):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = call()
        self.took.setdefault(name, []).append(time.perf_counter() - begun)
        return found

    def _pipeline(self) -> None:
        database = Database(self._url, schema="reminders")
        provider = registry.load("log", Settings())
        claims = PostgresClaims(database, worker="probe", formats={"log": 1})
        finalize = PostgresFinalize(database, worker="probe")
        number = 0
        while not self._stopped.wait(PAUSE):
            number += 1

            def schedule() -> ScheduledReminder:
                request = to_request(
                    lambda _: provider, tenant_id="probe", user_id="u", kind="k", channel="log", destination="d",
                    due_at=datetime.now(UTC), reference=f"{time.time_ns()}",
                )  # fmt: skip
                with database.transaction() as connection:
                    (made,) = insert(connection, "reminders", [request], {"log": True})
                assert isinstance(made, ScheduledReminder)
                return made

            made = self._timed("schedule", schedule)
            if number % 5 == 0:
                with database.transaction() as connection:
                    self._timed(
                        "cancel", lambda made=made, connection=connection: cancel(connection, "reminders", made.id)
                    )
                continue
            token = uuid7()
            messages = self._timed("lease", lambda token=token: PostgresScan(database).lease(10, 60.0, token)).messages
            for message in messages:
                claim = self._timed(
                    "claim", lambda m=message: claims.claim(m.reminder_id, m.delivery_key, uuid7(), 30.0)
                )
                if claim is not None:
                    report = Report(Delivered("far"), 1, b"\x01" * 32)
                    self._timed(
                        "record outcome", lambda c=claim, r=report: finalize.finalize_delivered_if_sending(c, r)
                    )
        database.close()

    def _ended(self) -> None:
        with connected(self._url) as connection, connection.cursor() as cursor:
            while not self._stopped.wait(PAUSE):
                cursor.execute(AHEAD)
                for (ended,) in cursor.fetchall()[::10]:
                    self._timed(
                        "lock an ended one",
                        lambda e=ended: cursor.execute(
                            "SELECT 1 FROM reminders.reminders WHERE id = %s FOR NO KEY UPDATE", (e,)
                        ),
                    )

    def _watch(self) -> None:
        with connected(self._url) as connection, connection.cursor() as cursor:
            while not self._stopped.wait(0.005):
                cursor.execute(WAITS)
                self.waited = max(self.waited, float((cursor.fetchone() or (0,))[0]))

    def tell(self) -> None:
        for name, took in self.took.items():
            took.sort()
            print(
                f"  {name:<18}{len(took):>7,} times, median {took[len(took) // 2] * 1e3:6.1f} ms, 99 % up to {took[len(took) * 99 // 100] * 1e3:6.1f} ms, longest {took[-1] * 1e3:6.1f} ms"
            )
        print(f"  longest wait for a lock that Postgres knew of: {self.waited * 1e3:.0f} ms", flush=True)


@contextmanager
def connected(url: str) -> Any:
    _, given = PGDialect_psycopg2().create_connect_args(Database(url, schema="reminders").url)
    connection = psycopg2.connect(**given)
    connection.autocommit = True
    try:
        yield connection
    finally:
        connection.close()


def make_old_month(database: Database) -> None:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT now() - interval '100 days', now() - interval '100 days' + interval '1 month'")
        first, following = cursor.fetchone() or ()
        cursor.execute(MONTH.format(first, following))


def figures(doing: str, probes: Probes) -> dict[str, Any]:
    """What others met meanwhile, in milliseconds."""
    probes.tell()
    longest = {f"{name} ms": round(max(probes.took.get(name, [0.0])) * 1e3, 1) for name in PROBES}
    return {"beside": doing, "longest wait for a lock ms": round(probes.waited * 1e3, 1), **longest}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--live", type=int, default=100_000)
    given = parser.parse_args()
    rows, live, before = (2_000, 1_000, 2.0) if given.quick else (given.rows, given.live, BEFORE)
    held: list[float] = []

    def timed(*arguments: Any) -> purging.Step:
        begun = time.perf_counter()
        try:
            return purging.step(*arguments)
        finally:
            held.append(time.perf_counter() - begun)

    retention.step = timed  # type: ignore[attr-defined]
    passes, others = [], []
    with ledger() as database:
        make_old_month(database)
        fill(database, rows, live)
        url = database.url.render_as_string(hide_password=False)
        print(f"{rows:,} reminders that have ended, {live:,} that live. Without a purge:", flush=True)
        probes = Probes(url)
        probes.start()
        time.sleep(before)
        probes.stop()
        others.append(figures("nothing", probes))
        for name in ("marking", "deleting"):
            held.clear()
            probes = Probes(url)
            probes.start()
            begun = time.perf_counter()
            done = retention.purge(database, 90 * 86400.0)
            wall = time.perf_counter() - begun
            probes.stop()
            passes.append(
                {
                    "pass": name, "reminders": done.marked + done.purged, "seconds": round(wall, 1), "steps": len(held),
                    "step p50 ms": round(quantile(held, 0.5) * 1e3, 1), "p99 ms": round(quantile(held, 0.99) * 1e3, 1),
                    "longest ms": round(max(held) * 1e3, 1), "steps over 100 ms": sum(each > 0.1 for each in held),
                }
            )  # fmt: skip
            tell(passes[-1])
            others.append(figures(name, probes))
    hand_over("purge_million", passes + others, f"{rows:,} that have ended, {live:,} that live.", given.json)


if __name__ == "__main__":
    main()

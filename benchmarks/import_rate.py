"""How fast `reminders import` is, where the time goes, and how much memory it takes.

    python -m benchmarks.import_rate [--rows 100000] [--runs 3] [--form csv] [--in-ledger 0] [--purged 0]

Starts a Postgres of its own in a temporary folder. Each run imports a fresh file of `--rows` rows (50 tenants, 50,000
users, 1,000 destinations or, with --own-destinations, one for each user; three zones, a data object of three keys) with
the real command in a process of its own, into an empty ledger or, with --in-ledger, into one that many rows were
imported into before; `--purged` keys of reminders that were purged are in it besides. Rates are rows over the whole
life of the process, its start included; they mean something only where others used little of the machine meanwhile.
CPU: of the command's process, and of everything below the postmaster. Memory: the peak resident set of the command's
process.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

import psutil
import psycopg2

from benchmarks.figures import arguments, hand_over
from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger.migrations import migrate

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo")
PURGED = """INSERT INTO reminders.keys_seen
SELECT sha256(('i' || n)::bytea), sha256('r'), gen_random_uuid(), 'dk_' || encode(sha256(('d' || n)::bytea), 'hex'), 1, now(),
       'delivered', now(), gen_random_uuid(), now() FROM generate_series(1, %s) n"""
EMPTY = "TRUNCATE reminders.reminders, reminders.due, reminders.destinations"


def rows(count: int, salt: str, own_destinations: bool) -> Iterator[dict[str, object]]:
    start = datetime(2090, 1, 1)  # noqa: DTZ001 - a wall time, its zone is beside it
    for i in range(count):
        user = i * 7919 % 50_000
        yield {
            "tenant_id": f"tenant-{i % 50}",
            "user_id": f"user-{user}",
            "kind": "appointment",
            "channel": "webhook",
            "destination": f"https://hooks.example.com/{user if own_destinations else i % 1000}",
            "due_at": (start + timedelta(minutes=i % 500_000)).isoformat(),
            "zone": ZONES[i % 3],
            "reference": f"booking-{salt}-{i}",
            "data": {"template": "appointment-v3", "booking": f"b{i}", "n": i},
        }


def write(path: Path, form: str, records: Iterator[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        if form == "jsonl":
            file.writelines(json.dumps(record) + "\n" for record in records)
            return
        first = next(records)
        out = csv.DictWriter(file, list(first))
        out.writeheader()
        for record in chain((first,), records):
            out.writerow({**record, "data": json.dumps(record["data"])})


def postgres_cpu(connection: psycopg2.extensions.connection) -> float:
    """Seconds used by the postmaster, by its children, and by those of them that have ended."""
    postmaster = psutil.Process(connection.get_backend_pid()).parent()
    assert postmaster is not None
    own = postmaster.cpu_times()
    living = sum(sum(child.cpu_times()[:2]) for child in postmaster.children())
    return own.user + own.system + own.children_user + own.children_system + living


def machine_cpu() -> float:
    """Seconds that all processors were busy."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def import_file(path: Path, url: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MB of one `reminders import`."""
    environment = {**os.environ, "DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1"}
    command = [str(Path(sys.executable).with_name("reminders")), "import", str(path), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    assert (status, answer["scheduled"]) == (0, answer["read"]), answer
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--form", choices=("csv", "jsonl"), default="csv")
    parser.add_argument("--in-ledger", type=int, default=0)
    parser.add_argument("--purged", type=int, default=0)
    parser.add_argument("--own-destinations", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.runs = 500, 1
    with throwaway_home("benchmark") as home, running(home) as services:
        migrate(services.database_url, "reminders")
        connection = psycopg2.connect(services.database_url)
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(PURGED, (given.purged,))
        path = home / f"rows.{given.form}"
        if given.in_ledger:
            write(path, given.form, rows(given.in_ledger, "before", given.own_destinations))
            wall, _, memory = import_file(path, services.database_url)
            print(f"before: {given.in_ledger:,} rows in {wall:.1f} s, {given.in_ledger / wall:,.0f}/s, {memory:.0f} MB")
        found = []
        for run in range(given.runs):
            if not given.in_ledger:
                cursor.execute(EMPTY)
            cursor.execute("CHECKPOINT")
            write(path, given.form, rows(given.rows, f"run{run}", given.own_destinations))
            before, all_before = postgres_cpu(connection), machine_cpu()
            wall, cpu, memory = import_file(path, services.database_url)
            server, all_used = postgres_cpu(connection) - before, machine_cpu() - all_before
            found.append(
                {
                    "run": run + 1, "rows": given.rows, "rows/s": round(given.rows / wall),
                    "command µs": round(cpu / given.rows * 1e6, 1), "Postgres µs": round(server / given.rows * 1e6, 1), "MB": round(memory),
                    "others used": f"{max(all_used - cpu - server, 0) / wall:.0%} of a core",
                }
            )  # fmt: skip
            print(
                f"run {run + 1}: {given.rows:,} rows in {wall:.2f} s, {given.rows / wall:,.0f}/s; CPU a row: "
                f"command {cpu / given.rows * 1e6:.1f} µs, Postgres {server / given.rows * 1e6:.1f} µs; {memory:.0f} MB; "
                f"others used {max(all_used - cpu - server, 0) / wall:.0%} of a core",
                flush=True,
            )
        print(f"median {statistics.median(each['rows/s'] for each in found):,.0f} rows/s")
        connection.close()
    hand_over(
        "import_rate",
        found,
        f"{given.form}, 50 tenants; the whole life of the command, its start included.",
        given.json,
    )


if __name__ == "__main__":
    main()

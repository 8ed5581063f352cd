"""Drain: how many due reminders a second go through the whole pipeline, and what CPU each costs.

Starts embedded Postgres and Redis, a scanner and a worker line with the shipped settings, and a receiver that costs
nothing; schedules COUNT reminders for one instant a few seconds ahead, and measures from that instant to the last
recorded outcome.

    python benchmarks/drain.py [--count 10000] [--latency-ms 0] [--events]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import redis

from reminders.bootstrap import open_database
from reminders.embedded import running
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.scheduling import insert
from reminders.ledger.status import make_partitions
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Secret, load

HERE = Path(__file__).resolve().parent
LIMIT = 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_by_part(roots: dict[str, int]) -> dict[str, float]:
    """CPU seconds so far of each process tree."""
    spent = {}
    for name, pid in roots.items():
        parent = psutil.Process(pid)
        times = [process.cpu_times() for process in [parent, *parent.children(recursive=True)]]
        spent[name] = sum(each.user + each.system for each in times) + parent.cpu_times().children_user
    return spent


def peak_memory(pid: int) -> list[int]:
    return [round(child.memory_info().rss / 2**20) for child in psutil.Process(pid).children(recursive=True)]


def server_pids(database: Database, redis_url: str) -> dict[str, int]:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        folder = Path(cursor.fetchone()[0])
    client = redis.Redis.from_url(redis_url)
    return {
        "postgres": int((folder / "postmaster.pid").read_text().split()[0]),
        "redis": client.info("server")["process_id"],
    }


def run(count: int, latency_ms: float, events: bool) -> dict[str, object]:
    os.environ.update(REMINDERS_WEBHOOK_SECRET="benchmark-secret-0123456789abcdef", REMINDERS_ALLOW_PRIVATE="1")
    with tempfile.TemporaryDirectory() as home, running(Path(home)) as services:
        environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
        settings = replace(load(environ), database_url=Secret(services.database_url))
        migrate(services.database_url, "reminders")
        database = open_database(settings)
        make_partitions(database)
        port = free_port()
        receiver = subprocess.Popen(
            [sys.executable, str(HERE / "fast_receiver.py"), str(port), str(latency_ms)], stdout=subprocess.PIPE
        )
        assert receiver.stdout is not None
        receiver.stdout.readline()
        code = "import sys; from reminders.cli.worker import worker; worker()"
        logs = (Path(home) / "workers.log").open("w")
        lines = {
            name: subprocess.Popen(
                [sys.executable, "-c", code, queue, "--loglevel=WARNING"], env=environ, stdout=logs, stderr=logs
            )
            for name, queue in (("scanner", "scan"), ("worker", "deliver"))
        }
        try:
            time.sleep(6)
            if events:
                subprocess.run(
                    [sys.executable, "-m", "celery", "-A", "reminders", "control", "enable_events"],
                    env=environ,
                    check=True,
                    capture_output=True,
                )
            due = datetime.now(UTC) + timedelta(seconds=max(5, count / 4000))
            provider = registry.load("webhook", settings)
            for start in range(0, count, 1000):
                requests = [
                    to_request(
                        lambda _: provider, tenant_id="bench", user_id=f"user-{n}", kind="bench", channel="webhook",
                        destination=f"http://127.0.0.1:{port}/hook", due_at=due, reference=f"order-{n}",
                        data={"order": n, "note": "a line of some forty characters, as in life"},
                    )
                    for n in range(start, min(count, start + 1000))
                ]  # fmt: skip
                with database.transaction() as connection:
                    insert(connection, "reminders", requests, {"webhook": True})
            roots = {name: process.pid for name, process in lines.items()} | server_pids(database, services.redis_url)
            time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds() - 0.2))
            before = cpu_by_part(roots)
            end = time.monotonic() + LIMIT
            memory: list[int] = []
            with database.transaction() as connection, connection.cursor() as cursor:
                while time.monotonic() < end:
                    time.sleep(0.25)
                    memory = max(memory, peak_memory(lines["worker"].pid))
                    cursor.execute("COMMIT; BEGIN; SELECT count(*) FROM reminders.due")
                    if cursor.fetchone() == (0,):
                        break
                after = cpu_by_part(roots)
                cursor.execute(
                    "SELECT extract(epoch FROM max(recorded_at) - %s)::float8, count(*), count(DISTINCT delivery_key) FROM reminders.delivery_attempts",
                    (due,),
                )
                seconds, attempts, keys = cursor.fetchone()
        finally:
            for process in lines.values():
                process.send_signal(signal.SIGTERM)
            for process in lines.values():
                process.wait(40)
            receiver.terminate()
            receiver.wait()
            logs.close()
            database.close()
    parts = {name: round((after[name] - before[name]) * 1000 / count, 3) for name in roots}
    return {
        "count": count, "latency_ms": latency_ms, "events": events, "attempts": attempts, "keys": keys,
        "seconds": round(seconds, 2), "per_second": round(count / seconds),
        "cpu_ms_per_delivery": {**parts, "all": round(sum(parts.values()), 3)}, "worker_rss_mb": memory,
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--events", action="store_true")
    given = parser.parse_args()
    print(json.dumps(run(given.count, given.latency_ms, given.events), indent=1))

"""Drain: how many due reminders a second go through the whole pipeline, what CPU each costs, and bare Celery beside it.

    python -m benchmarks.drain [--count 10000] [--rounds 3] [--latency-ms 0 50] [--events off on] [--json FILE]

Each row is measured in every round, ours and bare Celery's in turn, so that both have the same machine. Ours has embedded
Postgres and Redis, a scanner and a worker line, the shipped settings and every guarantee on; bare Celery only posts, with
`acks_late` and without a ledger. The receiver costs next to nothing.

live        the reminders are due at one instant, and are scanned, published and drained at once; bare Celery's messages are
            published while they are drained
preloaded   all messages are on the queue before the first is taken. Ours alone is set otherwise than it ships, in
            REMINDERS_IN_FLIGHT, which would keep the most of them in the ledger
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis

from benchmarks import bare_celery
from benchmarks.drained import WARM, Drained, await_count, measure, server_pids, signal_all
from benchmarks.fast_receiver import Receiver, receiving
from benchmarks.figures import hand_over, tell
from reminders.bootstrap import open_database
from reminders.broker.gauge import RedisGauge
from reminders.celery_options import KEY_PREFIX
from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.scheduling import insert
from reminders.ledger.status import make_partitions
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Secret, Settings, load

STARTED_WITHIN = 120.0
"""Seconds."""
LOADED_A_SECOND = 1500
"""Reminders that are scheduled in a second at the least: what is due is due only once all are there."""


def run(*, count: int, latency_ms: float, live: bool, events: bool) -> Drained:
    """Drain `count` reminders with a stack of our own."""
    os.environ.update(REMINDERS_WEBHOOK_SECRET="benchmark-secret-0123456789abcdef", REMINDERS_ALLOW_PRIVATE="1")
    with ExitStack() as stack:
        home = stack.enter_context(throwaway_home("benchmark"))
        services = stack.enter_context(running(home))
        environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
        if not live:
            environ["REMINDERS_IN_FLIGHT"] = str(2 * count + WARM)
        settings = replace(load(environ), database_url=Secret(services.database_url))
        migrate(services.database_url, "reminders")
        database = open_database(settings)
        stack.callback(database.close)
        make_partitions(database)
        receiver = stack.enter_context(receiving(latency_ms))
        lines = {"scanner": line("scan", environ, home, stack), "worker": line("deliver", environ, home, stack)}
        await_workers(settings, 1 + settings.processes)
        if events:
            argv = [sys.executable, "-m", "celery", "-A", "reminders", "control", "enable_events"]
            subprocess.run(argv, env=environ, check=True, capture_output=True)
        schedule(database, settings, receiver, range(WARM), datetime.now(UTC))
        await_count(receiver, WARM)
        roots = {name: process.pid for name, process in lines.items()} | server_pids(database, services.redis_url)
        due = datetime.now(UTC) + timedelta(seconds=2 + count / LOADED_A_SECOND)
        if not live:
            signal_all([roots["worker"]], signal.SIGSTOP)
        schedule(database, settings, receiver, range(WARM, WARM + count), due)
        if datetime.now(UTC) > due:
            raise TimeoutError("the reminders were not scheduled by the time they were due")
        if not live:
            client = redis.Redis.from_url(services.redis_url)
            while client.llen(f"{KEY_PREFIX}deliver") < count - 2 * settings.concurrency * settings.processes:
                time.sleep(0.05)
            signal_all([roots["worker"]], signal.SIGCONT)
        return measure(receiver, WARM, count, roots)


def line(queue: str, environ: dict[str, str], home: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    """A worker line as the Procfile has it; stopped when the stack closes."""
    log = stack.enter_context((home / f"{queue}.log").open("w"))
    code = "from reminders.cli.worker import worker; worker()"
    argv = [sys.executable, "-c", code, queue, "--loglevel=WARNING"]
    process = subprocess.Popen(argv, env=environ, stdout=log, stderr=log)
    stack.callback(process.wait, 60)
    stack.callback(process.send_signal, signal.SIGTERM)
    return process


def await_workers(settings: Settings, wanted: int) -> None:
    """Wait until so many worker processes take messages."""
    gauge = RedisGauge(settings)
    end = time.monotonic() + STARTED_WITHIN
    while sum(worker.capacity > 0 for worker in gauge.workers() or ()) < wanted:
        if time.monotonic() > end:
            raise TimeoutError(f"of {wanted} worker processes {gauge.workers()} were there")
        time.sleep(0.1)
    gauge.close()


def schedule(database: Database, settings: Settings, receiver: Receiver, numbers: range, due: datetime) -> None:
    provider = registry.load("webhook", settings)
    for start in range(numbers.start, numbers.stop, 1000):
        requests = [
            to_request(
                lambda _: provider, tenant_id="bench", user_id=f"user-{n}", kind="bench", channel="webhook",
                destination=receiver.url, due_at=due, reference=f"order-{n}",
                data={"order": n, "note": "a line of some forty characters, as in life"},
            )
            for n in range(start, min(numbers.stop, start + 1000))
        ]  # fmt: skip
        with database.transaction() as connection:
            insert(connection, "reminders", requests, {"webhook": True})


def compare(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Every row, measured `rounds` times; bare Celery's pool is the one that is fastest in a round before."""
    ways = [
        (ms, kind == "live", events == "on")
        for ms in given.latency_ms
        for kind in given.kind
        for events in given.events
    ]
    bare: dict[float, bare_celery.Pool] = {}
    for ms in given.latency_ms:
        trials = {
            pool: bare_celery.run(pool, count=given.count // 4, latency_ms=ms, live=False, events=False)
            for pool in bare_celery.pools(ms)
        }
        for pool, trial in trials.items():
            print(
                f"bare {pool} at {ms:g} ms: {trial.per_second:.0f}/s, {sum(trial.cpu.values()):.2f} ms", file=sys.stderr
            )
        bare[ms] = max(trials, key=lambda pool: trials[pool].per_second)
    measured: dict[Any, list[tuple[Drained, Drained]]] = {way: [] for way in ways}
    for number in range(given.rounds):
        for way in ways:
            ms, live, events = way
            size = {"count": given.count, "latency_ms": ms, "live": live, "events": events}
            ours = run(**size)
            other = bare_celery.run(bare[ms], **size)
            measured[way].append((ours, other))
            print(f"round {number + 1} {size}: {ours} {other}", file=sys.stderr)
    return [row(way, str(bare[way[0]]), pairs) for way, pairs in measured.items()]


def row(way: tuple[float, bool, bool], pool: str, pairs: Sequence[tuple[Drained, Drained]]) -> dict[str, Any]:
    ms, live, events = way
    ours, bare = zip(*pairs, strict=True)
    return {
        "latency ms": ms,
        "messages": "live" if live else "preloaded",
        "events": "on" if events else "off",
        "ours /s": spread([each.per_second for each in ours], 0),
        "bare /s": spread([each.per_second for each in bare], 0),
        "bare pool": pool,
        "ratio": spread([own.per_second / other.per_second for own, other in pairs], 2),
        "CPU ms": spread([sum(each.cpu.values()) for each in ours], 2),
        "bare CPU ms": spread([sum(each.cpu.values()) for each in bare], 2),
        **{f"{part} ms": spread([each.cpu[part] for each in ours], 2) for part in ours[0].cpu},
        **{f"{part} MB": max(each.peak_mb[part] for each in ours) for part in ("worker", "scanner")},
    }


def spread(values: Sequence[float], digits: int) -> str:
    """The median, with the least and the most."""
    middle, least, most = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0.0, 50.0])
    parser.add_argument("--kind", nargs="+", choices=["live", "preloaded"], default=["live", "preloaded"])
    parser.add_argument("--events", nargs="+", choices=["off", "on"], default=["off", "on"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = compare(given)
    for each in rows:
        tell(each)
    settings = (
        f"{given.count:,} reminders, {given.rounds} pairs of runs, one after the other: median (least to most). Shipped settings; "
        "bare Celery with the best of its pools. CPU of all processes, per delivery; MB at the peak."
    )
    hand_over("drain", rows, settings, given.json)


if __name__ == "__main__":
    main()

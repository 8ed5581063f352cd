"""The yardstick of `drain.py`: bare Celery, which posts and keeps no ledger, with the stock transport.

Of its pools gevent's is tried too where gevent is installed, or is in the folder that BARE_PATH names.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.drained import WARM, Drained, await_count, measure, signal_all
from benchmarks.fast_receiver import receiving
from reminders.embedded import running

HERE = Path(__file__).resolve().parent
BARE_PATH = os.environ.get("BARE_PATH", "")


@dataclass(frozen=True, slots=True)
class Pool:
    """Workers of one kind: so many, each with so many slots."""

    kind: str
    workers: int
    slots: int

    def __str__(self) -> str:
        return f"{self.kind} {self.workers}x{self.slots}"


POOLS = [Pool("threads", 2, 32), Pool("threads", 2, 8), Pool("prefork", 1, 2), Pool("prefork", 1, 4)]
"""Among which the best is chosen, for a receiver that answers at once."""
PATIENT_POOLS = [Pool("threads", 2, 32), Pool("threads", 2, 64), Pool("prefork", 1, 16), Pool("prefork", 1, 32)]
"""The same for one that takes its time."""


def pools(latency_ms: float) -> list[Pool]:
    """Those that can be run here."""
    found = PATIENT_POOLS if latency_ms else POOLS
    return [*found, Pool("gevent", 2, 64)] if BARE_PATH or importlib.util.find_spec("gevent") else found


def run(pool: Pool, *, count: int, latency_ms: float, live: bool, events: bool) -> Drained:
    """Drain `count` messages that are on the queue already or, if `live`, are put there meanwhile."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), postgres=False) as services,
        receiving(latency_ms) as receiver,
    ):
        # Nothing of ours is on its way, our `celeryconfig.py` least of all.
        path = os.pathsep.join(filter(None, [str(HERE), BARE_PATH]))
        environ = {
            **os.environ,
            "BARE_BROKER": services.redis_url,
            "PYTHONPATH": path,
            "CELERY_CONFIG_MODULE": "bare_app",
        }
        argv = [sys.executable, "-m", "celery", "-A", "bare_app", "worker", "-l", "ERROR"]
        argv += ["-P", pool.kind, "-c", str(pool.slots), "--without-gossip", "--without-mingle", *(["-E"] * events)]
        quiet = {"env": environ, "cwd": HERE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        workers = [subprocess.Popen([*argv, "-n", f"bare{n}@%h"], **quiet) for n in range(pool.workers)]  # type: ignore[call-overload]
        publish = [sys.executable, "-m", "bare_app"]
        try:
            subprocess.run([*publish, str(WARM), receiver.url], env=environ, cwd=HERE, check=True)
            await_count(receiver, WARM)
            roots = {f"worker{n}": worker.pid for n, worker in enumerate(workers)}
            bare = list(roots.values())
            roots["redis"] = redis.Redis.from_url(services.redis_url).info("server")["process_id"]
            if live:
                publisher = subprocess.Popen([*publish, str(count), receiver.url], env=environ, cwd=HERE)
                drained = measure(receiver, WARM, count, {**roots, "publisher": publisher.pid})
                publisher.wait()
            else:
                signal_all(bare, signal.SIGSTOP)
                subprocess.run([*publish, str(count), receiver.url], env=environ, cwd=HERE, check=True)
                signal_all(bare, signal.SIGCONT)
                drained = measure(receiver, WARM, count, roots)
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(60)
    cpu = {"worker": sum(value for name, value in drained.cpu.items() if name.startswith("worker"))}
    cpu |= {name: value for name, value in drained.cpu.items() if not name.startswith("worker")}
    peak = max(value for name, value in drained.peak_mb.items() if name.startswith("worker"))
    return Drained(drained.per_second, cpu, {"worker": peak})

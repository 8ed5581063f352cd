"""Bare Celery, for comparison with `drain.py`: COUNT messages preloaded, 2 x 32 threads, stock transport.

python benchmarks/bare_celery.py [--count 8000] [--latency-ms 0] [--pool threads] [--concurrency 32]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
from drain import HERE, cpu_by_part, free_port

from reminders.embedded import running


def run(count: int, latency_ms: float, pool: str, concurrency: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), postgres=False) as services:
        environ = {**os.environ, "BARE_BROKER": services.redis_url, "PYTHONPATH": str(HERE)}
        port = free_port()
        receiver = subprocess.Popen(
            [sys.executable, str(HERE / "fast_receiver.py"), str(port), str(latency_ms)], stdout=subprocess.PIPE
        )
        assert receiver.stdout is not None
        receiver.stdout.readline()
        publish = (
            "import sys; from bare_app import post\n"
            "for n in range(int(sys.argv[1])): post.delay(sys.argv[2], f'key-{n:040d}')"
        )
        subprocess.run(
            [sys.executable, "-c", publish, str(count), f"http://127.0.0.1:{port}/hook"], env=environ, check=True
        )
        client = redis.Redis.from_url(services.redis_url)
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "bare_app", "worker", "-P", pool, "-c", str(concurrency), "-l", "ERROR",
                 "--without-gossip", "--without-mingle", "-n", f"bare{number}@%h"],
                env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for number in range(2)
        ]  # fmt: skip
        roots = {f"worker{number}": worker.pid for number, worker in enumerate(workers)}
        roots["redis"] = client.info("server")["process_id"]
        while client.llen("celery") > count - 500:
            time.sleep(0.02)
        first, start, before = client.llen("celery"), time.monotonic(), cpu_by_part(roots)
        while client.llen("celery") > 200:
            time.sleep(0.02)
        last, seconds, after = client.llen("celery"), time.monotonic() - start, cpu_by_part(roots)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(30)
        receiver.terminate()
        receiver.wait()
    done = first - last
    parts = {name: round((after[name] - before[name]) * 1000 / done, 3) for name in roots}
    return {
        "count": done, "latency_ms": latency_ms, "pool": pool, "per_second": round(done / seconds),
        "cpu_ms_per_task": {**parts, "all": round(sum(parts.values()), 3)},
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=8_000)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--pool", default="threads")
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    print(json.dumps(run(given.count, given.latency_ms, given.pool, given.concurrency), indent=1))

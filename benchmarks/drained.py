"""What a drain came to: deliveries a second, and the CPU that each cost, between two counts at the receiver."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from benchmarks.fast_receiver import Receiver
from reminders.ledger.database import Database

WARM = 300
"""Deliveries before the measured ones: connections, imports and prepared statements are there then."""
FROM, TO = 0.05, 0.95
"""The parts of the measured deliveries between which is measured."""
LIMIT = 300.0
"""Seconds after which a drain has failed."""


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain. CPU in milliseconds a delivery, by part; memory in MB, the most of any one process."""

    per_second: float
    cpu: dict[str, float]
    peak_mb: dict[str, int]


def family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to whole trees: SIGSTOP lets them stand still, SIGCONT go on."""
    for pid in pids:
        for each in family(pid):
            each.send_signal(number)


def cpu_by_part(roots: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far of each process tree."""
    spent = {}
    for name, pid in roots.items():
        own = psutil.Process(pid).cpu_times()
        spent[name] = own.children_user + own.children_system
        for each in family(pid):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                spent[name] += times.user + times.system
    return spent


def server_pids(database: Database, redis_url: str) -> dict[str, int]:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        folder = Path(cursor.fetchone()[0])  # type: ignore[index]
    return {
        "postgres": int((folder / "postmaster.pid").read_text().split()[0]),
        "redis": redis.Redis.from_url(redis_url).info("server")["process_id"],
    }


def peak_mb(pid: int) -> int:
    """The most memory that one process of the tree has ever had, shared pages included."""
    peaks = []
    for each in family(pid):
        with suppress(OSError, IndexError):  # it has ended
            status = Path(f"/proc/{each.pid}/status").read_text()
            peaks.append(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return max(peaks, default=0)


def await_count(receiver: Receiver, count: int) -> float:
    """Wait until so many POSTs have come; the time by `time.monotonic`."""
    end = time.monotonic() + LIMIT
    while receiver.came() < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{receiver.came()} of {count} deliveries after {LIMIT:.0f} s")
        time.sleep(0.02)
    return time.monotonic()


def measure(receiver: Receiver, before: int, count: int, roots: Mapping[str, int]) -> Drained:
    """Measure `count` deliveries that come after `before` others."""
    await_count(receiver, before + int(count * FROM))
    first, start, spent = receiver.came(), time.monotonic(), cpu_by_part(roots)
    await_count(receiver, before + int(count * TO))
    last, end, after = receiver.came(), time.monotonic(), cpu_by_part(roots)
    await_count(receiver, before + count)
    done = last - first
    return Drained(
        per_second=round(done / (end - start), 1),
        cpu={name: round((after[name] - spent[name]) * 1000 / done, 3) for name in roots},
        peak_mb={name: peak_mb(pid) for name, pid in roots.items()},
    )

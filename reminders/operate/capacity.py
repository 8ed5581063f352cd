"""Capacity: how much of everything a load needs, with the arithmetic line by line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reminders.domain.errors import InvalidInput

WORKER_CPU_MS, SCANNER_CPU_MS, POSTGRES_CPU_MS, REDIS_CPU_MS = 1.9, 0.2, 0.9, 0.12
"""CPU milliseconds per call of each part. Source: `python -m benchmarks.lateness`, 30 November 2026, a steady 300 calls a second with the
shipped settings on two cores for everything, the receiver included. Measure your own machine with the same command."""
OWN_MS = 10.0
"""Milliseconds for which a call holds its slot beside the call itself: claim, render, finalize, acknowledgement. Source: the same run;
some 3 ms of CPU, and the rest is waiting for Postgres and Redis."""
WORKER_MB, PARENT_MB = 90.0, 18.0
"""Resident megabytes of a worker process with 32 threads and of the parent of its line. Source: `python -m benchmarks.line_memory`, 30 November
2026, 82 and 18 after 2,000 deliveries; the rest is room for what comes with time."""
REDIS_PER_PROCESS = 10
"""Connections of one process to Redis. Source: a stack of all lines; 8 when idle, 9 under load."""
OTHER_LINES = {"scanner": 1, "retry": 1, "alone": 1, "maintenance": 1}
"""The processes of the other lines that connect to Postgres; each line once."""
BESIDES_REDIS = 4
"""Connections of beat and Flower to Redis. Source: the same stack."""
SPARE_POSTGRES = 10
"""Connections to leave for commands, migrations and people."""
SHARE_OF_SLOTS = SHARE_OF_CPU = 0.7
"""How much of what there is may be in use at the peak: beyond it waiting grows faster than the load."""
LARGEST = 1e12


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked for: `peak` reminders due at once, called within `window` seconds. Latencies in seconds.

    `calls_per_reminder` is the amplification by retries. `mean` is the mean latency where it is known; else it is estimated.
    """

    peak: float
    window: float
    p50: float
    p95: float
    p99: float
    calls_per_reminder: float = 1.0
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    """What is run: per dyno `processes` with `concurrency` threads, in `dyno_mb` and `dyno_cores`; the servers' limits, if known."""

    processes: int
    concurrency: int
    in_flight: int
    deadline: float
    postgres_per_process: int
    dyno_mb: float = 512.0
    dyno_cores: float = 1.0
    postgres_limit: int | None = None
    redis_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One step: what it is, its formula, the formula with the figures in it, and what it comes to."""

    name: str
    formula: str
    working: str
    value: float
    unit: str

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Line.__slots__}


@dataclass(frozen=True, slots=True)
class Capacity:
    """What it comes to: the lines in their order, and what does not fit, in a sentence each."""

    lines: tuple[Line, ...]
    short: tuple[str, ...]

    def value(self, name: str) -> float:
        return next(line.value for line in self.lines if line.name == name)


def capacity(load: Load, there: Installation) -> Capacity:
    """The arithmetic. Raises `InvalidInput` for figures that make no sense."""
    _checked(load, there)
    lines: dict[str, Line] = {}
    for line in _arithmetic(load, there, lines):
        lines[line.name] = line
    found = {name: line.value for name, line in lines.items()}
    return Capacity(tuple(lines.values()), tuple(_short(found, there)))


def _arithmetic(load: Load, there: Installation, done: Mapping[str, Line]) -> Iterator[Line]:
    def of(name: str) -> float:
        return done[name].value

    yield _line(
        "calls",
        "N x A",
        f"{load.peak:,.0f} x {load.calls_per_reminder:g}",
        load.peak * load.calls_per_reminder,
        "calls",
    )
    yield _line(
        "rate", "calls / W", f"{of('calls'):,.0f} / {load.window:g} s", of("calls") / load.window, "calls a second"
    )
    if load.mean is not None:
        yield _line("latency", "measured mean", f"{load.mean * 1000:,.1f} ms", load.mean * 1000, "ms")
    else:
        # Each call counts as the upper end of its share, and the last hundredth as the deadline.
        shares = ((0.50, load.p50), (0.45, load.p95), (0.04, load.p99), (0.01, max(load.p99, there.deadline)))
        yield _line(
            "latency",
            "0.50 p50 + 0.45 p95 + 0.04 p99 + 0.01 deadline, an upper bound of the mean",
            " + ".join(f"{share:.2f} x {seconds * 1000:,.0f}" for share, seconds in shares),
            sum(share * seconds for share, seconds in shares) * 1000,
            "ms",
        )
    yield _line("slot_time", "latency + our own", f"{of('latency'):,.1f} + {OWN_MS:g}", of("latency") + OWN_MS, "ms")
    yield _line(
        "concurrency",
        "Little's law: L = rate x time",
        f"{of('rate'):,.1f} x {of('slot_time') / 1000:,.4f} s",
        of("rate") * of("slot_time") / 1000,
        "calls at once",
    )
    yield _line(
        "slots",
        f"L / {SHARE_OF_SLOTS:g}",
        f"{of('concurrency'):,.1f} / {SHARE_OF_SLOTS:g}",
        _whole(of("concurrency") / SHARE_OF_SLOTS),
        "threads",
    )
    yield _line(
        "processes_for_slots",
        "slots / REMINDERS_CONCURRENCY",
        f"{of('slots'):,.0f} / {there.concurrency}",
        _whole(of("slots") / there.concurrency),
        "processes",
    )
    yield _line(
        "worker_cores",
        f"rate x worker CPU / {SHARE_OF_CPU:g}",
        f"{of('rate'):,.1f} x {WORKER_CPU_MS / 1000:g} s / {SHARE_OF_CPU:g}",
        of("rate") * WORKER_CPU_MS / 1000 / SHARE_OF_CPU,
        "cores",
    )
    yield _line(
        "processes_for_cpu",
        "one core each at most",
        f"{of('worker_cores'):,.2f} rounded up",
        _whole(of("worker_cores")),
        "processes",
    )
    yield _line(
        "processes",
        "the larger",
        f"max({of('processes_for_slots'):,.0f}, {of('processes_for_cpu'):,.0f})",
        max(of("processes_for_slots"), of("processes_for_cpu")),
        "processes",
    )
    yield _line(
        "dynos",
        "max(processes / REMINDERS_PROCESSES, cores / cores of a dyno)",
        f"max({of('processes'):,.0f} / {there.processes}, {of('worker_cores'):,.2f} / {there.dyno_cores:g})",
        max(_whole(of("processes") / there.processes), _whole(of("worker_cores") / there.dyno_cores)),
        "worker dynos",
    )
    yield _line(
        "dyno_memory",
        "parent + REMINDERS_PROCESSES x process",
        f"{PARENT_MB:g} + {there.processes} x {WORKER_MB:g}",
        PARENT_MB + there.processes * WORKER_MB,
        "MB",
    )
    running = of("dynos") * there.processes
    yield _line(
        "memory",
        "dynos x dyno_memory",
        f"{of('dynos'):,.0f} x {of('dyno_memory'):,.0f}",
        of("dynos") * of("dyno_memory"),
        "MB",
    )
    yield _line(
        "in_flight",
        "REMINDERS_IN_FLIGHT: 4 x dynos x processes x threads",
        f"4 x {of('dynos'):,.0f} x {there.processes} x {there.concurrency}",
        4 * running * there.concurrency,
        "messages",
    )
    others = sum(OTHER_LINES.values())
    yield _line(
        "postgres_connections",
        "(worker processes + other lines) x pool + spare",
        f"({running:,.0f} + {others}) x {there.postgres_per_process} + {SPARE_POSTGRES}",
        (running + others) * there.postgres_per_process + SPARE_POSTGRES,
        "connections",
    )
    yield _line(
        "redis_connections",
        "(worker processes + other lines) x each + beat and Flower",
        f"({running:,.0f} + {others}) x {REDIS_PER_PROCESS} + {BESIDES_REDIS}",
        (running + others) * REDIS_PER_PROCESS + BESIDES_REDIS,
        "connections",
    )
    for name, title, spent in (
        ("scanner_cores", "scanner", SCANNER_CPU_MS),
        ("postgres_cores", "Postgres", POSTGRES_CPU_MS),
        ("redis_cores", "Redis", REDIS_CPU_MS),
    ):
        yield _line(
            name,
            f"rate x {title} CPU / {SHARE_OF_CPU:g}",
            f"{of('rate'):,.1f} x {spent / 1000:g} s / {SHARE_OF_CPU:g}",
            of("rate") * spent / 1000 / SHARE_OF_CPU,
            "cores",
        )


def _short(found: Mapping[str, float], there: Installation) -> Iterator[str]:
    if found["dyno_memory"] > there.dyno_mb:
        most = int((there.dyno_mb - PARENT_MB) // WORKER_MB)
        yield (
            f"a dyno of {there.dyno_mb:g} MB does not hold {there.processes} processes: "
            + (f"set REMINDERS_PROCESSES={most}" if most > 0 else "take a larger one")
        )  # fmt: skip
    if found["in_flight"] > there.in_flight:
        yield f"set REMINDERS_IN_FLIGHT={found['in_flight']:.0f}: the scan publishes into {there.in_flight:,} places now, for one dyno"
    for name, limit, what in (
        ("postgres_connections", there.postgres_limit, "Postgres allows {:,} connections: raise max_connections, or put pgbouncer in transaction mode before it"),
        ("redis_connections", there.redis_limit, "Redis allows {:,} connections: take a larger plan, or fewer and larger dynos"),
    ):  # fmt: skip
        if limit is not None and found[name] > limit:
            yield what.format(limit)
    for name, what in (("scanner_cores", "the scanner"), ("redis_cores", "Redis")):
        if found[name] > 1:
            yield f"{what} needs more than the one core it can use: give the peak a longer window"


def _line(name: str, formula: str, working: str, value: float, unit: str) -> Line:
    return Line(name, formula, working, round(value, 4), unit)


def _whole(value: float) -> int:
    """Rounded up, but for what the arithmetic itself has added; at least one."""
    return max(1, math.ceil(round(value, 9)))


def _checked(load: Load, there: Installation) -> None:
    for name, value, least in (
        ("--peak", load.peak, 1.0), ("--within", load.window, 0.001), ("--calls-per-reminder", load.calls_per_reminder, 1.0),
        ("--p50", load.p50, 0.0), ("--p95", load.p95, 0.0), ("--p99", load.p99, 0.0),
        ("--dyno-mb", there.dyno_mb, 1.0), ("--dyno-cores", there.dyno_cores, 0.01),
    ):  # fmt: skip
        if not (math.isfinite(value) and least <= value <= LARGEST):
            raise InvalidInput(name, f"must be between {least:g} and {LARGEST:g}; it is {value:g}")
    if not load.p50 <= load.p95 <= load.p99:
        raise InvalidInput("--p95", "percentiles must not fall: p50 <= p95 <= p99")
    if load.p99 > there.deadline:
        raise InvalidInput("--p99", f"is beyond REMINDERS_HTTP_DEADLINE ({there.deadline:g} s), at which a call ends")

"""What runs: which queues are served, and whether beat ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reminders.broker.presence import Presence
from reminders.broker.silence import Silent
from reminders.celery_options import DELIVERY_QUEUES, QUEUES
from reminders.ledger.status import PERIODS
from reminders.operate.doctor.check import Check, listed

WORKING = ("scan", *DELIVERY_QUEUES)
"""Without any of these, some reminders are never sent."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What runs: the live workers, those that fell silent, seconds since beat's last tick (None if never), and beat's period."""

    workers: Sequence[Presence]
    tick_age: float | None
    scan_every: float
    silent: Sequence[Silent] = ()


def all_served(workers: Sequence[Presence]) -> bool:
    """Whether every queue has a live worker."""
    return set(QUEUES) <= _served(workers)


def _unserved(lines: Lines) -> str | None:
    missing = [queue for queue in WORKING if queue not in _served(lines.workers)]
    return f"no worker consumes {listed(missing)}" if missing else None


def _maintenance(lines: Lines) -> str | None:
    return None if "maintenance" in _served(lines.workers) else "no worker consumes maintenance"


def _served(workers: Sequence[Presence]) -> set[str]:
    return {queue for worker in workers for queue in worker.queues}


def _unknown(lines: Lines) -> str | None:
    unknown = sorted(
        {f"{queue} ({worker.node})" for worker in lines.workers for queue in worker.queues if queue not in QUEUES}
    )
    return listed(unknown) if unknown else None


def _silent(lines: Lines) -> str | None:
    told = [f"{each.presence.node} (process {each.presence.pid}), for {each.seconds:,.0f} s" for each in lines.silent]
    return listed(told) if told else None


def _beat(lines: Lines) -> str | None:
    if lines.tick_age is None:
        return "no tick of beat was ever taken"
    late = lines.tick_age > PERIODS * lines.scan_every
    return f"the last tick was taken {lines.tick_age:,.0f} s ago" if late else None


LINES: tuple[Check[Lines], ...] = (
    Check(
        "queue_unserved",
        "fatal",
        f"Each of {', '.join(WORKING)} has a live worker.",
        "Start its line of the Procfile, `reminders worker QUEUE`, or on a laptop `reminders up`. If it runs, its log says what it waits for.",
        _unserved,
    ),
    Check(
        "maintenance_unserved",
        "warning",
        "`maintenance` has a live worker: purging, partitions, reconciliation, tasks of operators.",
        "Start the line `reminders worker maintenance`.",
        _maintenance,
    ),
    Check(
        "queue_unknown",
        "warning",
        f"Workers consume queues of this release only: {', '.join(QUEUES)}.",
        "Stop those workers, or let the rolling deploy finish that they belong to.",
        _unknown,
    ),
    Check(
        "process_silent",
        "warning",
        "No worker process has fallen silent without having signed off, unless another has taken its place.",
        "It is frozen (`kill -CONT`), or was killed and not started again: see whether its host and its parent live. One that is gone for good is forgotten after an hour.",
        _silent,
    ),
    Check(
        "beat_silent",
        "warning",
        f"Beat has ticked within {PERIODS} periods of `REMINDERS_SCAN_EVERY`. Scanners wake themselves meanwhile; nightly work waits.",
        "Start the line `python -m reminders.supervise beat`. If it runs: does a scanner take its ticks?",
        _beat,
    ),
)
"""Checks of what runs."""

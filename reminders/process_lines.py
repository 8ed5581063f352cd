"""The children of each process line: which Celery command, with what options and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from reminders.celery_options import QUEUES, broker_url
from reminders.domain.errors import InvalidInput
from reminders.flower_guard import flower_auth
from reminders.settings import Settings
from reminders.supervise import Child

FLOWER_PORT = 5555
FLOWER_TASKS = 5000
"""Tasks that Flower keeps in memory; its own default of 100,000 is some 400 MB."""
APART = ("scan", "alone")
"""Queues that share no process: deliveries must not starve the scan, and a poison reminder must die by itself."""


def worker_children(
    settings: Settings, queues: Sequence[str], processes: int | None, concurrency: int | None, loglevel: str
) -> list[Child]:
    """`processes` workers that each consume `queues` with `concurrency` threads; None means the queues' own default.

    Raises `InvalidInput` for an unknown queue or a combination that breaks what the queues are for, and
    `SettingsError` when there is no broker.
    """
    queues = tuple(dict.fromkeys(queues))
    for queue in queues:
        if queue not in QUEUES:
            raise InvalidInput("QUEUE", f"{queue!r} is no queue; there are {', '.join(QUEUES)}")
        if queue in APART and len(queues) > 1:
            raise InvalidInput("QUEUE", f"{queue!r} needs a worker of its own")
    if queues == ("alone",) and concurrency not in {None, 1}:
        raise InvalidInput("--concurrency", "must be 1 for 'alone', where each task runs by itself")
    broker_url(settings)
    own_processes, own_concurrency = _size(settings, queues)
    return [
        celery_child(
            f"{'+'.join(queues)} {number + 1}",
            "worker",
            f"--queues={','.join(queues)}",
            "--pool=threads",
            f"--concurrency={concurrency or own_concurrency}",
            # Unique on one machine and, by the host's name, across machines.
            f"--hostname={queues[0]}{number + 1}.{os.getpid()}@%h",
            f"--loglevel={loglevel}",
            # Workers have nothing to tell each other: the ledger is where they meet. (Heartbeat events stay on, they
            # are sent only while Flower listens and are how it knows who is there.)
            "--without-gossip",
            "--without-mingle",
        )
        for number in range(processes or own_processes)
    ]


def readiness_child(queues: Sequence[str]) -> Child:
    """What runs before the workers of `queues`, or before beat: it ends when they can do their work. (The parent itself stays small.)"""
    return Child("ready", (sys.executable, "-m", "reminders.readiness", *dict.fromkeys(queues)))


def _size(settings: Settings, queues: Sequence[str]) -> tuple[int, int]:
    """Processes and threads by default: the most that any of `queues` asks for."""
    sizes = {
        "scan": (1, 1),
        "deliver": (settings.processes, settings.concurrency),
        # Destinations that time out hold a thread for the whole deadline; they get a quarter of the threads.
        "retry": (1, max(1, settings.concurrency // 4)),
        "alone": (1, 1),
        "maintenance": (1, 2),
    }
    wanted = [sizes[queue] for queue in queues]
    return max(processes for processes, _ in wanted), max(concurrency for _, concurrency in wanted)


def beat_child(settings: Settings) -> Child:
    """Beat. Any number may run: a tick is a wake-up, never a decision. Raises `SettingsError` without a broker."""
    broker_url(settings)
    return celery_child("beat", "beat", "--loglevel=INFO")


def flower_child(settings: Settings, environ: Mapping[str, str]) -> Child:
    """Flower on `PORT`, open to the network only where a platform sets `PORT`. Raises `SettingsError`."""
    flower_auth(settings)
    broker_url(settings)
    port = environ.get("PORT")
    return celery_child(
        "flower",
        "flower",
        f"--port={port or FLOWER_PORT}",
        f"--address={'0.0.0.0' if port else '127.0.0.1'}",  # noqa: S104 - a platform that sets PORT routes to it from outside
        f"--max-tasks={FLOWER_TASKS}",
        # A flowerconfig.py lying about could take the password away.
        f"--conf={os.devnull}",
    )


def celery_child(name: str, *arguments: str) -> Child:
    """A `celery -A reminders` command, tied to the supervising parent."""
    return Child(name, (sys.executable, "-m", "reminders.supervised", "--quiet", "-A", "reminders", *arguments))

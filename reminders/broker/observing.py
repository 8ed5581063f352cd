"""What metrics are drawn from on the broker: queues, the processes alive and how they get on, and what processes have counted.

The counts are lost with the broker's data, and then begin at nothing again, as counters may.
"""

from __future__ import annotations

from dataclasses import dataclass

from reminders.broker.gauge import UNACKED_KEY
from reminders.broker.link import Link
from reminders.broker.presence import COUNTED_KEY, DROPPED_KEY, ask, living, progress_key
from reminders.broker.silence import silent_ones
from reminders.celery_options import KEY_PREFIX, QUEUES


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at the broker."""

    queues: dict[str, int]
    unacknowledged: int
    """Messages of all queues that were taken and not acknowledged, a killed worker's included."""
    processes: dict[str, int]
    """How many processes alive consume each queue."""
    progress_age: dict[str, float]
    """Of each queue, for how many seconds that process has not got on which has got on least lately."""
    silent: dict[str, int]
    """How many processes of each queue have fallen silent without having signed off, and were not replaced."""
    silence: dict[str, float]
    """Of each queue, for how many seconds the one has been that has been for longest."""
    dropped: int
    counted: dict[str, int]
    """By the names of `reminders.pipeline.tally`."""


def observe(link: Link) -> Observed:
    """Look once, in two round trips, or three if a process is silent. Raises `BrokerAway`."""
    with link.redis() as client:
        with client.pipeline(transaction=False) as pipe:
            for queue in QUEUES:
                pipe.llen(KEY_PREFIX + queue)
            pipe.hlen(UNACKED_KEY)
            pipe.hvals(DROPPED_KEY)
            pipe.hgetall(COUNTED_KEY)
            ask(pipe)
            *lengths, unacknowledged, dropped, counted, clock, rows = pipe.execute()
        workers = living((clock, rows))
        gone = silent_ones(client, (clock, rows))
        said = client.mget([progress_key(worker) for worker in workers]) if workers else []
    processes, ages = dict.fromkeys(QUEUES, 0), dict.fromkeys(QUEUES, 0.0)
    for worker, age in zip(workers, said, strict=True):
        for queue in worker.queues:
            if queue in processes:
                processes[queue] += 1
                # One of an earlier release says nothing of it.
                ages[queue] = max(ages[queue], float(age) if age is not None else 0.0)
    silent, silence = dict.fromkeys(QUEUES, 0), dict.fromkeys(QUEUES, 0.0)
    for each in gone:
        for queue in each.presence.queues:
            if queue in silent:
                silent[queue] += 1
                silence[queue] = max(silence[queue], each.seconds)
    return Observed(
        queues=dict(zip(QUEUES, lengths, strict=True)),
        unacknowledged=unacknowledged,
        processes=processes,
        progress_age=ages,
        silent=silent,
        silence=silence,
        dropped=sum(map(int, dropped)),
        counted={name.decode(): int(number) for name, number in counted.items()},
    )

"""A worker that delivers takes as many messages more as it has slow calls, within a bound.

Celery takes as many messages as it has threads, and a call that hangs keeps its thread for the whole deadline. Here the
pool may have more threads than that, started when they are needed, and what the worker may hold unacknowledged decides
how many are in use: its slots, and one more for each call that is slow.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import bootsteps

from reminders.broker.shutdown import shutting_down
from reminders.domain.slow_calls import slow_room
from reminders.pipeline.open_calls import open_calls

EVERY = 0.25
"""Seconds between two counts."""
GROWING_QUEUE = "deliver"
"""Only who serves it grows: `alone` must stay alone, and what `retry` has is what hanging destinations are given."""


class SlowCalls(bootsteps.StartStopStep):  # type: ignore[misc]
    """A step of Celery's worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._room = 0
        self._qos: Any = None
        self._given = 0

    def start(self, worker: Any) -> None:
        """Let the pool have more threads. It has started none yet."""
        if GROWING_QUEUE not in worker.app.amqp.queues.consume_from:
            return
        slots = worker.pool.limit
        self._room = slow_room(slots)
        open_calls.limit(slots, self._room)
        worker.pool.executor = ThreadPoolExecutor(max_workers=slots + self._room)

    def register_with_event_loop(self, worker: Any, hub: Any) -> None:
        """Called at each connection; Celery forgets the timers of the one before."""
        if self._room:
            hub.call_repeatedly(EVERY, self._adjust, worker)

    def _adjust(self, worker: Any) -> None:
        consumer = worker.consumer
        qos = getattr(consumer, "qos", None)
        if qos is None or getattr(consumer, "task_consumer", None) is None or shutting_down.is_set():
            return
        if qos is not self._qos:
            self._qos, self._given = qos, 0  # another connection, which begins with the slots alone
        wanted = min(open_calls.slow(), self._room)
        if wanted > self._given:
            qos.increment_eventually(wanted - self._given)
        elif wanted < self._given:
            qos.decrement_eventually(self._given - wanted)
        else:
            return
        self._given = wanted
        qos.update()

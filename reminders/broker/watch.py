"""A thread in every worker process that says it is alive, notices when it has gone deaf, and keeps the scan awake."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from celery import signals
from celery.bootsteps import CLOSE, TERMINATE
from celery.worker import state

from reminders.broker import junk
from reminders.broker.link import BrokerAway, Link
from reminders.broker.presence import Presence, announce, sign_off
from reminders.broker.progress import Progress
from reminders.broker.shutdown import given_up, shutting_down
from reminders.celery_options import SCAN_TASK
from reminders.pipeline import tally
from reminders.settings import Settings

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks."""
POLLS_WITHIN = 5.0
"""Seconds within which an idle consumer asks the broker again; it does so every second."""
DEAF_AFTER = 15
"""Looks, a second apart, at which the broker answered this thread while the consumer asked it nothing; then the worker
is ended. Looks and not seconds: a process that was frozen or starved has had no time to ask."""
STARTING = 45
"""Looks more that a worker gets until it has asked for the first time."""
SIGN_OFF_WITHIN = 3.0
"""Seconds that the end of a process waits for the broker's answer to its last words."""
SCAN_IDLE = 5.0
"""Seconds without a scan after which a scanner wakes itself, should the tick have been lost with the broker's data."""


STUCK_AFTER = 30.0
"""Seconds without a look of the running scan after which the worker is ended: a connection that swallowed a reply, say.
A look with every server away takes some 20."""


def watch(
    worker: Any, settings: Settings, wake_scan: Callable[[], None], looked_at: Callable[[], float | None]
) -> None:
    """Start watching `worker`, Celery's WorkController, from its initialisation on.

    `looked_at` says when its scan last began a look, by `time.monotonic`; None if it never did.
    """
    thread = _Watch(worker, settings, wake_scan, looked_at)
    # Weak references would let the handler go.
    signals.worker_shutdown.connect(thread.sign_off, weak=False)
    Thread(target=thread.run, name="watch", daemon=True).start()


class _Watch:
    def __init__(
        self,
        worker: Any,
        settings: Settings,
        wake_scan: Callable[[], None],
        looked_at: Callable[[], float | None],
    ) -> None:
        self._worker = worker
        self._settings = settings
        self._wake_scan = wake_scan
        self._looked_at = looked_at
        self._scanning_since: float | None = None
        self._link = Link(settings)
        self._announced: Presence | None = None
        self._unheard = -STARTING
        self._scan_seen = 0.0
        self._progress = Progress()
        self._pace = Event()
        self._speaking = Lock()
        self._signed_off = False

    def sign_off(self, **_: Any) -> None:
        """Say that this process ends as it should, and nothing after that."""
        if not self._speaking.acquire(timeout=SIGN_OFF_WITHIN):
            return
        try:
            self._signed_off = True
            if self._announced is not None:
                sign_off(self._link, self._announced)
        except BrokerAway as error:
            logger.info("watch.not_signed_off error=%s: it is known to have been leaving, if that could be said", error)
        finally:
            self._speaking.release()

    def run(self) -> None:
        while True:
            try:
                self._look()
            except Exception:
                # A thread that dies here would make the worker count as dead.
                logger.exception("watch.failed: it goes on")
            self._pace.wait(EVERY)

    def _look(self) -> None:
        with self._speaking:
            if not self._signed_off:
                self._look_and_speak()

    def _look_and_speak(self) -> None:
        consumer = getattr(self._worker, "consumer", None)
        ready = getattr(consumer, "task_consumer", None) is not None
        listens = self._listens(consumer)
        self._progress.note(
            finished=state.all_total_count[0] - len(state.active_requests),
            idle=listens and not state.reserved_requests,
            looked_at=self._looked_at(),
        )
        if self._worker.blueprint is not None and self._worker.blueprint.state in {CLOSE, TERMINATE}:
            shutting_down.set()  # told by remote control, which sends no signal
        dropped, counted = junk.dropped.take(), tally.events.take()
        presence = self._presence(consumer)
        try:
            announce(
                self._link,
                presence,
                instead_of=self._announced,
                dropped=dropped,
                counted=counted,
                progress_age=self._progress.age(),
                dispatcher=self._settings.dispatcher,
                leaving=shutting_down.is_set(),
            )
            self._announced = presence
        except BrokerAway:
            junk.dropped.put_back(dropped)
            tally.events.put_back(counted)
            self._unheard = min(self._unheard, 0)  # the broker's silence is not the consumer's deafness
            return
        if shutting_down.is_set():
            return
        self._unheard = 0 if listens else self._unheard + 1
        if self._unheard > DEAF_AFTER:
            self._end(f"The consumer has asked the broker nothing at {self._unheard} looks")
        self._end_if_stuck()
        if ready and "scan" in self._queues():
            self._keep_scanning()

    def _presence(self, consumer: Any) -> Presence:
        qos = getattr(consumer, "qos", None)
        capacity = qos.value if qos is not None else 0
        return Presence(self._worker.hostname, os.getpid(), self._queues(), capacity)

    def _queues(self) -> tuple[str, ...]:
        return tuple(sorted(self._worker.app.amqp.queues.consume_from))

    def _keep_scanning(self) -> None:
        if state.reserved_requests:
            self._scan_seen = monotonic()
        elif monotonic() - self._scan_seen > SCAN_IDLE:
            self._scan_seen = monotonic()
            self._wake_scan()

    def _end_if_stuck(self) -> None:
        now = monotonic()
        if not any(request.task.name == SCAN_TASK for request in tuple(state.active_requests)):
            self._scanning_since = None
            return
        if self._scanning_since is None:
            self._scanning_since = now
        silent = now - max(self._scanning_since, self._looked_at() or 0.0)
        if silent > STUCK_AFTER:
            self._end(f"The scan has not looked for {silent:.0f} s")

    def _end(self, reason: str) -> None:
        logger.critical("watch.worker_ended: %s; ending this worker", reason)
        given_up.set()
        os.kill(os.getpid(), signal.SIGTERM)
        # Crash here: whatever is claimed stays `sending`; the scan repairs it at the claim's end.
        self._pace.wait(self._settings.grace)
        os._exit(1)

    def _listens(self, consumer: Any) -> bool:
        """Whether the consumer asks for messages, or has good reason not to: it is full, or an operator stopped it."""
        tasks = getattr(consumer, "task_consumer", None)
        if tasks is None:
            return False
        channel = tasks.channel
        if monotonic() - channel.polled_at < POLLS_WITHIN or not self._queues():
            return True
        return bool(state.reserved_requests) and not channel.qos.can_consume()

"""At a shutdown, messages that were taken and not begun go back to their queues at once, for the next worker.

Celery puts them back when it closes its connection, and that comes after the last call under way has ended: with one
call that hangs, they would stay away for the whole grace, and after the kill that follows it until the ledger misses
them. What may be taken and not begun: retries that wait for their time, messages behind busy threads, and the one that
the broker hands out while the worker is being told to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from celery import bootsteps
from celery.worker import state

from reminders.broker.transport import BROKER_FAULTS

logger = logging.getLogger(__name__)


class HandBack(bootsteps.StartStopStep):  # type: ignore[misc]
    """A step of Celery's worker. Steps are told that the worker closes before any of them is stopped."""

    def close(self, worker: Any) -> None:
        """Take nothing more, and hand back what was not begun. Takes about a second at most while the broker answers."""
        tasks = getattr(worker.consumer, "task_consumer", None)
        if tasks is None:
            return  # not connected
        try:
            tasks.cancel()
            tasks.channel.finish_poll()
            handed_back = tasks.channel.hand_back(_not_begun(worker.pool))
        except BROKER_FAULTS as error:
            # Crash here: taken by a worker that will not do it; the redelivery deadline in the ledger brings it back.
            logger.warning("shutdown.nothing_handed_back: the broker does not answer (%s)", type(error).__name__)
        else:
            logger.info("shutdown.handed_back messages=%d", handed_back)


def _not_begun(pool: Any) -> list[str]:
    """The delivery tags of what is taken and not begun, and now never will be by this worker."""
    executor = getattr(pool, "executor", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
    not_begun = (_now(state.reserved_requests) | _now(state.scheduled_requests)) - _now(state.active_requests)
    return [request.message.delivery_tag for request in not_begun]


def _now(requests: Iterable[Any]) -> set[Any]:
    while True:
        try:
            return set(requests)
        except RuntimeError:
            continue  # a thread has ended or begun one meanwhile

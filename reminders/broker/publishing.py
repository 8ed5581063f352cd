"""Puts delivery messages on the broker, a batch in one round trip."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu.messaging import Producer

from reminders.broker.link import BrokerAway, Link
from reminders.broker.transport import AMQP
from reminders.celery_options import DELIVER_TASK
from reminders.pipeline.ports import Message
from reminders.settings import Settings

logger = logging.getLogger(__name__)

PIPELINE = 500
"""Messages sent in one round trip at most; about half a megabyte."""
ORIGIN = "scan"


class KombuPublisher:
    """Implements `reminders.pipeline.ports.Publisher`. Thread-safe; one call at a time.

    Messages go to the anonymous exchange, with the route as the queue's name: no binding is needed, so a flushed
    Redis swallows none. They are what Celery itself would send for `reminders.deliver`: its own headers around our two or
    three arguments, encoded by kombu.
    """

    def __init__(self, settings: Settings) -> None:
        self._link = Link(settings)
        # Only what differs between two messages is filled in per message.
        self._headers: dict[str, Any] = (
            AMQP(Celery(set_as_current=False)).as_task_v2("", DELIVER_TASK, origin=ORIGIN, ignore_result=None).headers
        )

    def publish(self, messages: Sequence[Message]) -> int:
        """Send in order; return how many the broker surely accepted, a prefix.

        Never raises for a broker that is away or does not answer; a batch whose reply was lost counts as not accepted
        though it may have arrived. Takes at most a few socket timeouts (`SOCKET_TIMEOUT`) then.
        """
        accepted = 0
        try:
            with self._link.channel() as channel:
                producer = Producer(channel, serializer="json", auto_declare=False)  # type: ignore[no-untyped-call]
                for start in range(0, len(messages), PIPELINE):
                    part = messages[start : start + PIPELINE]
                    with producer.batch(max_size=len(part)):  # type: ignore[no-untyped-call]
                        for message in part:
                            self._add(producer, message)
                    accepted += len(part)
        except BrokerAway as error:
            logger.warning("publish.broker_away accepted=%d of=%d: %s", accepted, len(messages), error)
        return accepted

    def close(self) -> None:
        self._link.close()

    def _add(self, producer: Any, message: Message) -> None:
        task_id = str(uuid4())
        # Only what is capped names its caps; a worker of an earlier release passes the argument over.
        caps = [[str(each) for each in message.caps]] if message.caps else []
        producer.publish(
            ([str(message.reminder_id), message.delivery_key, *caps], {}, _NO_EMBEDDED),
            exchange="",
            routing_key=message.route,
            headers={**self._headers, "id": task_id, "root_id": task_id},
            correlation_id=task_id,
            reply_to="",
        )


_NO_EMBEDDED: dict[str, None] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

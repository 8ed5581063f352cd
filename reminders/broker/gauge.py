"""Reads what the broker holds: in one round trip, and never waiting long."""

from __future__ import annotations

from reminders.broker.link import BrokerAway, Link
from reminders.broker.presence import DROPPED_KEY, Presence, ask, living
from reminders.broker.silence import Silent, silent_ones
from reminders.celery_options import DELIVERY_QUEUES, KEY_PREFIX, QUEUES
from reminders.pipeline.ports import OnBroker
from reminders.settings import Settings

UNACKED_KEY = KEY_PREFIX + "unacked"
"""kombu's hash of messages that were taken and not acknowledged, of all queues together."""


class RedisGauge:
    """Implements `reminders.pipeline.ports.Gauge`. Thread-safe; one call at a time."""

    def __init__(self, settings: Settings) -> None:
        self._link = Link(settings)

    def in_flight(self) -> OnBroker | None:
        """Messages queued for delivery, and unacknowledged ones as far as live delivery workers can hold them.

        A killed worker's messages stay noted as unacknowledged until the visibility timeout; they count only while
        somebody alive could be holding as many. The few that scan and maintenance hold count too, under the same cap.
        None when the broker cannot be asked.
        """
        try:
            with self._link.redis() as client, client.pipeline(transaction=False) as pipe:
                for queue in DELIVERY_QUEUES:
                    pipe.llen(KEY_PREFIX + queue)
                pipe.hlen(UNACKED_KEY)
                ask(pipe)
                *queued, unacked, time, rows = pipe.execute()
        except BrokerAway:
            return None
        capacity = sum(worker.capacity for worker in living((time, rows)) if worker.delivers)
        return OnBroker(sum(queued), min(unacked, capacity))

    def queues(self) -> dict[str, int] | None:
        """Messages waiting in each queue; None when the broker cannot be asked."""
        try:
            with self._link.redis() as client, client.pipeline(transaction=False) as pipe:
                for queue in QUEUES:
                    pipe.llen(KEY_PREFIX + queue)
                return dict(zip(QUEUES, pipe.execute(), strict=True))
        except BrokerAway:
            return None

    def workers(self) -> list[Presence] | None:
        """The worker processes alive; None when the broker cannot be asked."""
        try:
            with self._link.redis() as client, client.pipeline(transaction=False) as pipe:
                ask(pipe)
                return sorted(living(pipe.execute()), key=lambda worker: (worker.node, worker.pid))
        except BrokerAway:
            return None

    def silent(self) -> list[Silent] | None:
        """Those that have fallen silent without having signed off; None when the broker cannot be asked."""
        try:
            with self._link.redis() as client:
                with client.pipeline(transaction=False) as pipe:
                    ask(pipe)
                    replies = pipe.execute()
                return silent_ones(client, replies)
        except BrokerAway:
            return None

    def dropped(self) -> dict[str, int] | None:
        """Messages that were dropped because they are not ours, by the task they name, since Redis was last emptied."""
        try:
            with self._link.redis() as client:
                counts: dict[bytes, bytes] = client.hgetall(DROPPED_KEY)  # type: ignore[assignment]
                return {name.decode(): int(count) for name, count in sorted(counts.items())}
        except BrokerAway:
            return None

    def close(self) -> None:
        self._link.close()

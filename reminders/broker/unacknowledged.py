"""What a channel has taken from Redis and not acknowledged, as kombu notes it there, and when it is written."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from typing import Any

from kombu.transport import redis as stock
from kombu.transport import virtual
from kombu.utils.json import dumps

logger = logging.getLogger(__name__)


class QoS(stock.QoS):
    """Notes and acknowledges without MULTI: two commands in one write need no transaction around them.

    Crash here: an index entry without its message or the other way round can stay behind. The first is cleaned up at
    the visibility timeout, the second counts as one more message of a dead worker; the ledger brings both back.

    While an event loop polls the channel, what it has to write goes out with its next tick, in the round trip that takes
    the next messages.

    Crash here: acknowledged by the task and not yet in Redis. The message comes again and finds its reminder done. Taken
    and not yet noted: the redelivery deadline in the ledger brings it back.
    """

    _TAKEN = object()
    """Stands for a message that Redis has noted itself, until it is made of its bytes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._to_note: dict[str, str] = {}
        # Threads of the pool add to it while the event loop takes from it.
        self._to_forget: deque[str | bytes] = deque()

    @property
    def waits(self) -> bool:
        """Whether there is something to write."""
        return bool(self._to_note or self._to_forget)

    def expect(self, tag: bytes) -> None:
        """A message that was noted under `tag` when it was taken is about to be made. An empty one was not noted."""
        if tag:
            virtual.QoS.append(self, self._TAKEN, tag.decode())  # type: ignore[no-untyped-call]

    def forget(self, tag: bytes) -> None:
        """What was noted under `tag` when it was taken is no message."""
        if tag:
            self._to_forget.append(tag)

    def append(self, message: Any, delivery_tag: str) -> None:
        if self._delivered.get(delivery_tag) is self._TAKEN:
            virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]
        elif self.channel.ticks:
            way = message.delivery_info
            self._to_note[delivery_tag] = dumps([message._raw, way["exchange"], way["routing_key"]])  # type: ignore[no-untyped-call] # noqa: SLF001 - as kombu does
            virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]
        else:
            super().append(message, delivery_tag)  # type: ignore[no-untyped-call]

    def write(self, pipe: Any) -> None:
        """Add to `pipe` what waits to be written."""
        if self._to_note:
            pipe.zadd(self.unacked_index_key, dict.fromkeys(self._to_note, time()))
            pipe.hset(self.unacked_key, mapping=self._to_note)
            self._to_note = {}
        forgotten = [self._to_forget.popleft() for _ in range(len(self._to_forget))]
        if forgotten:
            pipe.zrem(self.unacked_index_key, *forgotten)
            pipe.hdel(self.unacked_key, *forgotten)

    def write_now(self) -> None:
        """Write what waits for a tick that may not come, or not in time."""
        if self.waits:
            with self.pipe_or_acquire() as pipe:
                self.write(pipe)
                pipe.execute()

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Put back what was taken and not acknowledged, while there is a connection to do it over.

        Celery closes a lost connection twice, and the second time the channel no longer knows where its broker is:
        kombu's own method then ends the whole worker.
        """
        if self.channel.gone:
            self._on_collect.cancel()
            return
        self.write_now()
        super().restore_unacked_once(stderr)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, unless its connection is gone: the broker hands it out again then.

        A task that began before the connection was lost acknowledges on the channel that it came over.
        """
        if self.channel.gone:
            self._pass_over(delivery_tag)
        elif self.channel.ticks:
            self._to_forget.append(delivery_tag)
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
        else:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """As `ack`. A message whose connection is gone is neither put back nor removed: it comes again anyway."""
        if self.channel.gone:
            self._pass_over(delivery_tag)
        else:
            self.write_now()
            super().reject(delivery_tag, requeue=requeue)  # type: ignore[no-untyped-call]

    def restore_unacked(self, client: Any = None) -> None:
        if self.channel.gone:
            self._delivered.clear()
        else:
            self.write_now()
            super().restore_unacked(client)  # type: ignore[no-untyped-call]

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        if not self.channel.gone:
            super().restore_visible(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _pass_over(self, delivery_tag: str) -> None:
        logger.info("broker.not_acknowledged: a message came over a connection that is gone, and comes again")
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def hand_back(self, delivery_tag: str) -> None:
        """Put a message that was taken back where it came from: it is the next of its queue again."""
        self.write_now()
        self.restore_by_tag(delivery_tag)  # type: ignore[no-untyped-call]
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    @contextmanager
    def pipe_or_acquire(self, pipe: Any = None, client: Any = None) -> Iterator[Any]:
        if pipe:
            yield pipe
        else:
            with self.channel.conn_or_acquire(client) as acquired:
                yield acquired.pipeline(transaction=False)

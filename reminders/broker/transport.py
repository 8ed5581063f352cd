"""Celery's Redis transport with two changes: one client per channel, and bytes that are no message kill nobody.

kombu builds a new `redis.Redis` for every acknowledgement and every note of an unacknowledged message (0.2 to 0.3 ms
a task), and hands whatever it pops from a queue to code that ends the worker when it cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty
from time import monotonic
from typing import Any

import celery.app.amqp
import kombu.connection
from kombu.exceptions import OperationalError
from kombu.transport import redis as stock
from kombu.transport import virtual
from redis import ConnectionError as RedisConnectionError
from redis import RedisError

from reminders.broker.envelope import fault_of
from reminders.broker.junk import drop, drop_unread
from reminders.broker.shutdown import shutting_down

logger = logging.getLogger(__name__)

BLANK = "-"
"""Stands for arguments wherever Celery would show them. Not empty: Celery takes an empty text for a missing one."""
RECONNECT_AT_MOST = 5.0
"""Seconds between two attempts to reach a broker that is away; kombu's own climb to 30."""
BROKER_FAULTS = (RedisError, OSError, OperationalError)
"""What the broker or the way to it can raise while a message is taken. (kombu's own list has `KeyError` in it, which a
message can cause.)"""


class CheckedClient(stock.PrefixedStrictRedis):
    """Looks at what comes out of a queue before kombu does."""

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        reply = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name != "BRPOP" or not reply:
            return reply
        queue, raw = reply
        fault = fault_of(raw, queue.decode())
        if fault is None:
            return reply
        drop(raw, queue.decode(), fault)
        return None  # what an empty queue answers


class QoS(stock.QoS):
    """Notes and acknowledges without MULTI: two commands in one write need no transaction around them.

    Crash here: an index entry without its message or the other way round can stay behind. The first is cleaned up at
    the visibility timeout, the second counts as one more message of a dead worker; the ledger brings both back.
    """

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Put back what was taken and not acknowledged, while there is a connection to do it over.

        Celery closes a lost connection twice, and the second time the channel no longer knows where its broker is:
        kombu's own method then ends the whole worker.
        """
        if self.channel.gone:
            self._on_collect.cancel()
            return
        super().restore_unacked_once(stderr)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, unless its connection is gone: the broker hands it out again then.

        A task that began before the connection was lost acknowledges on the channel that it came over.
        """
        if self.channel.gone:
            self._forget(delivery_tag)
        else:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """As `ack`. A message whose connection is gone is neither put back nor removed: it comes again anyway."""
        if self.channel.gone:
            self._forget(delivery_tag)
        else:
            super().reject(delivery_tag, requeue=requeue)  # type: ignore[no-untyped-call]

    def restore_unacked(self, client: Any = None) -> None:
        if self.channel.gone:
            self._delivered.clear()
        else:
            super().restore_unacked(client)  # type: ignore[no-untyped-call]

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        if not self.channel.gone:
            super().restore_visible(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _forget(self, delivery_tag: str) -> None:
        logger.info("broker.not_acknowledged: a message came over a connection that is gone, and comes again")
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def hand_back(self, delivery_tag: str) -> None:
        """Put a message that was taken back where it came from: it is the next of its queue again."""
        self.restore_by_tag(delivery_tag)  # type: ignore[no-untyped-call]
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    @contextmanager
    def pipe_or_acquire(self, pipe: Any = None, client: Any = None) -> Iterator[Any]:
        if pipe:
            yield pipe
        else:
            with self.channel.conn_or_acquire(client) as acquired:
                yield acquired.pipeline(transaction=False)


class Channel(stock.Channel):
    QoS = QoS
    polled_at: float = 0.0
    """When the broker was last asked for a message, by `time.monotonic`; 0.0 before the first time."""
    _kept_client: Any = None

    @property
    def gone(self) -> bool:
        """Whether this channel has lost its connection for good; a reconnect makes another channel."""
        return getattr(self.connection, "client", None) is None

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        consumer_tag = super().basic_consume(queue, no_ack, *args, **kwargs)  # type: ignore[no-untyped-call]
        callbacks = self.connection._callbacks  # noqa: SLF001 - kombu makes the message and notes it in there
        callbacks[queue] = partial(self._take, callbacks[queue], queue, no_ack)
        return consumer_tag

    def _take(self, take: Callable[[Any], Any], queue: str, no_ack: bool, message: Any) -> Any:
        """Hand a message to whoever consumes `queue`; should they fail on it, it is gone and not put back.

        The last line of defence: Celery would end the worker, the message would be put back and end the next one. A
        reminder whose message is dropped here is brought back by the ledger.
        """
        try:
            return take(message)
        except (*BROKER_FAULTS, MemoryError):
            raise
        except Exception as error:
            if shutting_down.is_set():
                raise  # the pool takes nothing any more: no fault of the message, which is put back
            drop_unread(message, queue, error)
            if not no_ack:
                self.basic_reject(message["properties"]["delivery_tag"], requeue=False)  # type: ignore[no-untyped-call]
            return None

    def _get_client(self) -> Any:
        super()._get_client()  # type: ignore[no-untyped-call]  # refuses a redis-py that is too old
        return partial(CheckedClient, global_keyprefix=self.global_keyprefix)

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        # A reconnect replaces the pool; the client goes with it.
        if self._kept_client is None or self._kept_client.connection_pool is not self.pool:
            self._kept_client = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept_client

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.gone:
            # kombu fails with an AttributeError, which nobody takes for a lost connection.
            raise RedisConnectionError("this channel's connection is gone")
        return super()._connparams(asynchronous)  # type: ignore[no-untyped-call]

    def finish_poll(self) -> None:
        """Wait for the answer if a message has been asked for: a second at most while the broker answers at all.

        Called when nothing is consumed any more, so a message that comes goes back to its queue.
        """
        if self._in_poll:
            with suppress(Empty):
                self._brpop_read()  # type: ignore[no-untyped-call]

    def hand_back(self, delivery_tags: Iterable[str]) -> int:
        """Put those of these messages that this channel still holds back on their queues; return how many."""
        held = [tag for tag in delivery_tags if tag in self.qos._delivered]  # noqa: SLF001 - kombu tells nobody else
        for tag in held:
            self.qos.hand_back(tag)
        return len(held)

    def _brpop_start(self, timeout: float | None = None) -> None:
        self.polled_at = monotonic()
        super()._brpop_start(timeout)  # type: ignore[no-untyped-call]


class Transport(stock.Transport):
    Channel = Channel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        # Of this one: an event loop may put its own in its place.
        self.close_poller = self.cycle.poller.close  # type: ignore[union-attr]


class Connection(kombu.connection.Connection):
    """Takes this module's transport for `redis://`, `rediss://` and `redis+socket://`.

    The address keeps its plain scheme, which Flower needs, and no other connection of the process is changed.
    """

    def get_transport_cls(self) -> type:
        chosen: type = super().get_transport_cls()  # type: ignore[no-untyped-call]
        return Transport if chosen is stock.Transport else chosen

    def _do_close_transport(self) -> None:
        """Kombu would leave the poller's descriptor open until the garbage is collected, one for each reconnection."""
        if isinstance(self._transport, Transport):
            self._transport.close_poller()
        super()._do_close_transport()  # type: ignore[no-untyped-call]

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        return super().ensure_connection(*args, **{"interval_max": RECONNECT_AT_MOST, **kwargs})  # type: ignore[no-untyped-call]


class AMQP(celery.app.amqp.AMQP):  # type: ignore[misc]
    Connection = Connection
    BrokerConnection = Connection

    def as_task_v2(self, *args: Any, **kwargs: Any) -> Any:
        """Celery's message, with the texts that repeat the arguments blanked whoever sends it."""
        return super().as_task_v2(*args, **{**kwargs, "argsrepr": BLANK, "kwargsrepr": BLANK})

"""Celery's Redis transport with three changes: one client per channel, one round trip for many messages, and bytes that
are no message kill nobody.

kombu builds a new `redis.Redis` for every acknowledgement and every note of an unacknowledged message (0.2 to 0.3 ms
a task), makes three round trips for each message, and hands whatever it pops from a queue to code that ends the worker
when it cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty
from time import monotonic
from typing import Any

import celery.app.amqp
import kombu.connection
from kombu.exceptions import OperationalError
from kombu.transport import redis as stock
from redis import ConnectionError as RedisConnectionError
from redis import RedisError

from reminders.broker import taking
from reminders.broker.envelope import read
from reminders.broker.junk import drop, drop_unread
from reminders.broker.shutdown import shutting_down
from reminders.broker.taking import Taken
from reminders.broker.unacknowledged import QoS

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
        fault = read(raw, queue.decode()).fault
        if fault is None:
            return reply
        drop(raw, queue.decode(), fault)
        return None  # what an empty queue answers


class Channel(stock.Channel):
    QoS = QoS
    polled_at: float = 0.0
    """When the broker was last asked for a message, by `time.monotonic`; 0.0 before the first time."""
    _kept_client: Any = None
    _there_may_be_more = False
    """Whether a queue has just given a message."""
    _notes_all = True
    """Whether all that is consumed has to be acknowledged."""

    @property
    def gone(self) -> bool:
        """Whether this channel has lost its connection for good; a reconnect makes another channel."""
        return getattr(self.connection, "client", None) is None

    @property
    def ticks(self) -> bool:
        """Whether an event loop asks for this channel's messages, and so will come by again at once."""
        cycle = getattr(self.connection, "cycle", None)
        return getattr(cycle, "loop", None) is not None and bool(self._active_queues)

    def tick(self) -> None:
        """One round trip for all there is to say: what is acknowledged, and that there is room for so many messages more.

        Crash here, or should the reply be lost: what Redis has handed out counts as this worker's until the visibility
        timeout, as each message that a worker dies with. The redelivery deadline in the ledger brings it back before.
        """
        qos = self.qos
        room = self._room() if self._there_may_be_more or qos.waits else 0
        if not (room or qos.waits):
            return
        queues = self._queue_cycle.consume(len(self._active_queues))
        with qos.pipe_or_acquire() as pipe:
            qos.write(pipe)
            if room:
                self.polled_at = monotonic()
                keys = {"unacked": self.unacked_key, "index": self.unacked_index_key, "prefix": self.global_keyprefix}
                taking.ask(pipe, queues, room, **keys)
            *_, reply = pipe.execute()
        if room:
            self._there_may_be_more = False
            self._deliver_all(taking.taken(reply, queues))

    def _room(self) -> int:
        """How many messages more may be taken at once. None while one is asked for that may come at any moment."""
        if self._in_poll or not self._active_queues or not self._notes_all:
            return 0
        return self.qos.can_consume_max_estimate() or 0

    def _deliver_all(self, messages: Iterable[Taken]) -> None:
        good = []
        for each in messages:
            self._queue_cycle.rotate(each.queue)
            envelope = read(each.raw, each.queue)
            if envelope.fault is None:
                self.qos.expect(each.tag)
                good.append((envelope.message, each.queue))
            else:
                drop(each.raw, each.queue, envelope.fault)
                self.qos.forget(each.tag)
        for message, queue in good:
            self.connection._deliver(message, queue)  # noqa: SLF001 - as kombu does

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        consumer_tag = super().basic_consume(queue, no_ack, *args, **kwargs)  # type: ignore[no-untyped-call]
        callbacks = self.connection._callbacks  # noqa: SLF001 - kombu makes the message and notes it in there
        callbacks[queue] = partial(self._take, callbacks[queue], queue, no_ack)
        self._notes_all = self._notes_all and not no_ack
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
                self._brpop_read()

    def hand_back(self, delivery_tags: Iterable[str]) -> int:
        """Put those of these messages that this channel still holds back on their queues; return how many."""
        held = [tag for tag in delivery_tags if tag in self.qos._delivered]  # noqa: SLF001 - kombu tells nobody else
        for tag in held:
            self.qos.hand_back(tag)
        return len(held)

    def _brpop_read(self, **options: Any) -> Any:
        self._there_may_be_more = False
        self._there_may_be_more = super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        return self._there_may_be_more

    def _basic_cancel(self, consumer_tag: str) -> Any:
        if not self.gone:
            self.qos.write_now()
        return super()._basic_cancel(consumer_tag)  # type: ignore[no-untyped-call]

    def _brpop_start(self, timeout: float | None = None) -> None:
        self.polled_at = monotonic()
        super()._brpop_start(timeout)  # type: ignore[no-untyped-call]


class Poller(stock.MultiChannelPoller):
    loop: Any = None
    """The event loop that asks for messages, tick after tick; None if none does."""

    def on_poll_start(self) -> None:
        if self.loop is not None:
            for channel in tuple(self._channels):
                channel.tick()
            if self.loop._ready:  # noqa: SLF001 - what a message caused at once: it would wait for the poll's end otherwise
                self.loop._waker.wake()  # noqa: SLF001
        super().on_poll_start()  # type: ignore[no-untyped-call]


class Transport(stock.Transport):
    Channel = Channel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.cycle: Any = Poller()  # type: ignore[no-untyped-call]
        # Of this one: an event loop may put its own in its place.
        self.close_poller = self.cycle.poller.close

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self.cycle.loop = loop
        super().register_with_event_loop(connection, loop)  # type: ignore[no-untyped-call]


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

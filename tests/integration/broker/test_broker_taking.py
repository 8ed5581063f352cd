"""With an event loop a worker takes, notes and acknowledges many messages in one round trip, and loses none on the way."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

import pytest

from reminders.broker.publishing import KombuPublisher
from reminders.celery_options import KEY_PREFIX
from reminders.pipeline.ports import Message

UNACKED, INDEX = KEY_PREFIX + "unacked", KEY_PREFIX + "unacked_index"


@pytest.fixture
def publish(broker_settings):
    publisher = KombuPublisher(broker_settings)

    def publish(*keys, queue="deliver"):
        assert publisher.publish([Message(uuid4(), key, queue) for key in keys]) == len(keys)

    yield publish
    publisher.close()


class Ticking:
    """A consumer as Celery's is, whose event loop ticks when it is told to."""

    def __init__(self, connection, sender, room, queues):
        self.taken = []
        self.connection = connection
        self.consumer = sender.amqp.TaskConsumer(connection, queues=[sender.amqp.queues[each] for each in queues])
        self.consumer.on_message = self.taken.append
        self.channel = self.consumer.channel
        self.channel.basic_qos(0, room, False)
        connection.transport.cycle.loop = SimpleNamespace(_ready=set(), _waker=None)
        self.consumer.consume()

    def first(self):
        """Wait for a first message, as an idle worker does."""
        self.ask()
        assert self.channel._brpop_read()

    def ask(self):
        self.connection.transport.cycle._register_BRPOP(self.channel)

    def tick(self):
        self.channel.tick()
        keys, self.taken[:] = [each.payload[0][1] for each in self.taken], []
        return keys


@pytest.fixture
def ticking(reading, sender):
    def start(room, queues=("deliver",)):
        return Ticking(reading(), sender, room, queues)

    return start


def drained(connection):
    """The bodies of all messages on the queue."""
    channel = connection.default_channel
    return [message.payload for message in iter(lambda: channel.basic_get("deliver", no_ack=True), None)]


def noted(server):
    """How many messages are noted as unacknowledged; the index must have the same."""
    count = server.client.hlen(UNACKED)
    assert set(server.client.hkeys(UNACKED)) == set(server.client.zrange(INDEX, 0, -1))
    return count


def test_what_there_is_room_for_is_taken_and_noted_at_once(ticking, publish, server):
    publish(*"abcdefghijk")
    worker = ticking(5)
    worker.first()

    assert worker.tick() == [*"abcde"]

    assert (server.waiting("deliver"), noted(server)) == (6, 5)
    assert worker.tick() == []
    assert server.waiting("deliver") == 6


def test_half_of_what_waits_is_left_to_other_workers(ticking, publish, server):
    publish(*"abcdefgh")
    one, other = ticking(32), ticking(32)
    one.first()
    other.first()

    assert one.tick() == ["a", "c", "d", "e"]
    assert other.tick() == ["b", "f", "g"]

    assert server.waiting("deliver") == 1


def test_nothing_is_asked_of_the_broker_while_there_is_nothing_to_say(ticking, publish, server):
    publish("a")
    worker = ticking(5)
    worker.first()
    worker.tick()
    commands = server.client.info()["total_commands_processed"]

    worker.tick()

    assert server.client.info()["total_commands_processed"] == commands + 1  # the look itself


def test_acknowledging_and_taking_more_are_one_round_trip(ticking, publish, server):
    publish(*"abcdefghi")
    worker = ticking(3)
    worker.first()
    worker.channel.tick()
    first, second, _third = worker.taken[:]
    worker.taken.clear()
    first.ack()
    second.ack()
    assert noted(server) == 3  # not written yet

    assert worker.tick() == ["d", "e"]

    assert (server.waiting("deliver"), noted(server)) == (4, 3)
    assert {first.delivery_tag.encode(), second.delivery_tag.encode()}.isdisjoint(server.client.hkeys(UNACKED))


def test_nothing_is_taken_while_a_message_is_asked_for_that_may_come_at_any_moment(ticking, publish, server):
    publish(*"ab")
    worker = ticking(1)
    worker.first()
    worker.channel.tick()
    worker.ask()
    worker.taken.pop().ack()

    assert worker.tick() == []

    assert noted(server) == 0


def test_queues_are_asked_in_turn(ticking, publish):
    publish(*"abcd")
    publish(*"wxyz", queue="retry")
    worker = ticking(1, ("deliver", "retry"))
    worker.first()
    keys = worker.tick()
    for _ in range(7):
        worker.channel.qos.ack(next(iter(worker.channel.qos._delivered)))
        worker.channel.qos._flush()
        keys += worker.tick()

    assert keys[0::2] == [*"abcd"]
    assert keys[1::2] == [*"wxyz"]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xff",
        b"no message",
        b"{}",
        b'{"properties": null}',
        b'{"properties": {"delivery_tag": 5}}',
        b'{"properties": {"delivery_tag": "t"}}',
        b'{"properties": {"delivery_tag": "t", "delivery_info": {"exchange": "", "routing_key": "deliver"}}}',
        b'{"properties": {"delivery_tag": "\xff", "delivery_info": {"exchange": "", "routing_key": "deliver"}}}',
        b'{"properties": {"delivery_tag": "t", "delivery_info": {"exchange": {}, "routing_key": 5}}}',
        b'{"properties": {"delivery_tag": "", "delivery_info": {"exchange": "", "routing_key": "deliver"}}}',
    ],
)
def test_junk_among_messages_is_dropped_and_leaves_no_note(ticking, publish, server, junk):
    publish("a", "b")
    server.client.lpush(KEY_PREFIX + "deliver", junk)
    publish(*"cdefg")
    worker = ticking(8)
    worker.first()

    assert worker.tick() == ["a", "b", "c", "d"]
    worker.channel.qos.write_now()

    assert (server.waiting("deliver"), noted(server)) == (3, 4)


def test_a_worker_that_dies_with_what_it_took_leaves_all_of_it_noted(ticking, publish, server, sender, reading):
    publish(*"abcde")
    worker = ticking(5)
    worker.first()
    worker.tick()
    worker.channel._disconnect_pools()  # dies
    assert noted(server) == 3

    other = reading().default_channel
    for tag in server.client.hkeys(UNACKED):
        other.qos.restore_by_tag(tag.decode())

    assert (server.waiting("deliver"), noted(server)) == (5, 0)
    assert sorted(each[0][1] for each in drained(reading())) == [*"abcde"]


def test_what_was_acknowledged_before_the_consumer_is_cancelled_is_written(ticking, publish, server):
    publish(*"abcde")
    worker = ticking(5)
    worker.first()
    worker.channel.tick()
    first, second, third = worker.taken
    first.ack()

    worker.consumer.cancel()
    assert noted(server) == 2
    second.ack()
    assert noted(server) == 1
    assert worker.channel.hand_back([third.delivery_tag]) == 1
    assert (server.waiting("deliver"), noted(server)) == (3, 0)


def test_a_message_refused_before_it_was_noted_goes_back_to_its_queue(ticking, publish, server):
    publish("a")
    worker = ticking(5)
    worker.first()
    (message,) = worker.taken
    assert noted(server) == 0

    message.requeue()

    assert (server.waiting("deliver"), noted(server)) == (1, 0)

"""What a worker that is told to stop has taken and not begun goes back to its queue before the last call has ended."""

import signal
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import uuid4

import psutil
import pytest

from reminders.broker.publishing import KombuPublisher
from reminders.celery_options import DELIVER_TASK, KEY_PREFIX
from reminders.pipeline.ports import Message

from .conftest import eventually, worker_argv

QUEUE, UNACKED = KEY_PREFIX + "deliver", KEY_PREFIX + "unacked"


@pytest.fixture
def publish(broker_settings):
    publisher = KombuPublisher(broker_settings)

    def publish(*keys):
        assert publisher.publish([Message(uuid4(), key, "deliver") for key in keys]) == len(keys)

    yield publish
    publisher.close()


class Taking:
    """A consumer of queue `deliver` as Celery's is, in this process; takes at most two and acknowledges nothing."""

    def __init__(self, sender):
        self.connection = sender.connection_for_read()
        self.taken = []
        queue = sender.amqp.queues["deliver"]
        self.consumer = sender.amqp.TaskConsumer(self.connection, queues=[queue])
        self.consumer.on_message = self.taken.append
        self.consumer.channel.basic_qos(0, 2, False)
        self.consumer.consume()

    def look(self):
        """Ask the broker, and leave the question open if there is no answer yet."""
        try:
            self.connection.drain_events(timeout=0.1)
        except TimeoutError:
            return False
        return True

    def keys(self):
        return [message.payload[0][1] for message in self.taken]


@pytest.fixture
def taking(sender):
    made = []

    def start():
        made.append(Taking(sender))
        return made[-1]

    yield start
    for each in made:
        each.connection.close()


def test_a_message_handed_out_while_the_worker_is_told_to_stop_is_not_kept(taking, publish, server):
    worker = taking()
    assert not worker.look()
    assert worker.consumer.channel._in_poll
    worker.consumer.cancel()
    publish("late")
    eventually(lambda: server.client.llen(QUEUE) == 0, 5)  # it is on its way to the worker

    worker.consumer.channel.finish_poll()

    assert (server.client.llen(QUEUE), server.client.hlen(UNACKED)) == (1, 0)
    assert worker.taken == []
    another = taking()
    eventually(another.look, 10)
    assert another.keys() == ["late"]


def test_an_open_question_that_nothing_answers_is_waited_for_a_second_at_most(taking, server):
    worker = taking()
    assert not worker.look()
    worker.consumer.cancel()

    worker.consumer.channel.finish_poll()
    worker.consumer.channel.finish_poll()

    assert not worker.consumer.channel._in_poll


def test_what_is_handed_back_is_the_next_to_be_taken(taking, publish, server):
    publish("first", "second", "third")
    worker = taking()
    eventually(lambda: worker.look() and len(worker.taken) == 2, 5)
    worker.consumer.cancel()
    first, second = (message.delivery_tag for message in worker.taken)

    assert worker.consumer.channel.hand_back([second, "of another connection"]) == 1

    assert (server.client.llen(QUEUE), server.client.hlen(UNACKED)) == (2, 1)
    another = taking()
    eventually(lambda: another.look() and len(another.taken) == 2, 5)
    assert another.keys() == ["second", "third"]
    assert worker.consumer.channel.hand_back([first]) == 1
    assert server.client.llen(QUEUE) == 1


def test_a_worker_hands_back_what_waits_for_its_time_and_finishes_what_it_has_begun(probe, sender, publish, server):
    later = datetime.now(UTC) + timedelta(minutes=5)
    parent = probe.parent(("worker", ["-m", *worker_argv("deliver", concurrency=1)]), grace=50)
    probe.await_ready()
    for number in range(3):
        sender.send_task(DELIVER_TASK, (str(uuid4()), f"later-{number}"), queue="deliver", eta=later)
    eventually(lambda: server.client.hlen(UNACKED) == 3, 10)
    publish("wait")
    eventually(lambda: probe.notes("begin"), 10)

    parent.send_signal(signal.SIGTERM)

    eventually(lambda: server.client.llen(QUEUE) == 3, 20)
    eventually(lambda: "shutdown.handed_back messages=3" in probe.output(), 10)  # said once it is done
    assert parent.poll() is None
    probe.let_go()
    assert parent.wait(15) == 0
    assert [note[2] for note in probe.notes("deliver")] == ["wait"]
    assert (server.client.llen(QUEUE), server.client.hlen(UNACKED)) == (3, 0)


def test_a_worker_whose_call_outlasts_the_grace_is_killed_then(probe, publish):
    parent = probe.parent(("worker", ["-m", *worker_argv("deliver", concurrency=1)]), grace=2)
    probe.await_ready()
    publish("wait")
    eventually(lambda: probe.notes("begin"), 10)
    (worker,) = psutil.Process(parent.pid).children()

    began = monotonic()
    parent.send_signal(signal.SIGTERM)

    assert parent.wait(30) == 0
    assert 1.9 < monotonic() - began < 12
    assert not worker.is_running()
    assert "worker did not stop within 2 s; killing it" in probe.output()
    assert probe.notes("deliver") == []


def test_a_broker_that_is_away_delays_no_shutdown(probe, server):
    parent = probe.parent(("worker", ["-m", *worker_argv("deliver", concurrency=1)]), grace=40)
    probe.await_ready()
    (worker,) = psutil.Process(parent.pid).children()
    server.kill()

    worker.send_signal(signal.SIGTERM)
    parent.send_signal(signal.SIGTERM)

    assert parent.wait(30) == 0
    assert "did not stop within" not in probe.output()

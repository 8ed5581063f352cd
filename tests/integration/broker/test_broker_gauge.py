"""The gauge: what it counts, what it does not, and how soon it forgets the dead."""

from uuid import uuid4

import pytest

from reminders.broker import presence
from reminders.broker.gauge import RedisGauge
from reminders.broker.link import Link
from reminders.broker.presence import KEY, SILENT_AFTER, Presence, announce
from reminders.broker.publishing import KombuPublisher
from reminders.celery_options import QUEUES
from reminders.pipeline.ports import Message, OnBroker

from .conftest import eventually


@pytest.fixture
def gauge(broker_settings):
    gauge = RedisGauge(broker_settings)
    yield gauge
    gauge.close()


def unacked(server, number):
    server.client.hset("reminders:unacked", mapping={str(uuid4()): "x" for _ in range(number)})


def test_counts_delivery_queues_and_what_live_workers_can_hold(gauge, server, broker_settings, monkeypatch):
    monkeypatch.setattr(presence, "SILENT_AFTER", 60.0)  # so long they are alive here, who speak once
    link = Link(broker_settings)
    for queue, number in zip(QUEUES, (1, 2, 3, 4, 5), strict=True):
        server.client.lpush(f"reminders:{queue}", *["m"] * number)
    unacked(server, 50)
    assert gauge.queues() == {"scan": 1, "deliver": 2, "retry": 3, "alone": 4, "maintenance": 5}
    assert gauge.in_flight() == OnBroker(9, 0)  # nobody is there to hold any of the 50

    announce(link, Presence("d@h", 11, ("deliver",), 32))
    announce(link, Presence("r@h", 12, ("retry",), 8))
    announce(link, Presence("s@h", 13, ("scan",), 100))
    assert gauge.in_flight() == OnBroker(9, 40)

    server.client.delete("reminders:unacked")
    unacked(server, 5)
    assert gauge.in_flight() == OnBroker(9, 5)

    announce(link, Presence("d@h", 11, ("deliver",), 2), instead_of=Presence("d@h", 11, ("deliver",), 32))
    assert [(worker.node, worker.capacity) for worker in gauge.workers()] == [("d@h", 2), ("r@h", 8), ("s@h", 100)]
    link.close()


def test_a_worker_that_is_silent_for_three_seconds_does_not_count(gauge, server, broker_settings):
    link = Link(broker_settings)
    unacked(server, 32)

    def counted():
        announce(link, Presence("d@h", 11, ("deliver",), 32))
        return gauge.in_flight() == OnBroker(0, 32)

    eventually(counted, 20)  # this process too may be held up for three seconds

    server.client.zincrby(KEY, -3.1, server.client.zrange(KEY, 0, 0)[0])

    assert gauge.in_flight() == OnBroker(0, 0)
    assert gauge.workers() == []
    link.close()


def test_without_a_broker_there_is_no_number(gauge, server):
    server.kill()
    assert gauge.in_flight() is None
    assert gauge.queues() is None
    assert gauge.workers() is None
    assert gauge.dropped() is None
    server.start()
    assert gauge.in_flight() == OnBroker(0, 0)


def broker_time(server):
    seconds, microseconds = server.client.time()
    return seconds + microseconds / 1e6


def test_a_killed_workers_messages_stop_counting_within_four_seconds(gauge, probe, server, broker_settings):
    publisher = KombuPublisher(broker_settings)
    worker = probe.worker("deliver", concurrency=4)
    assert publisher.publish([Message(uuid4(), "wait", "deliver") for _ in range(7)]) == 7
    eventually(lambda: len(probe.notes("begin")) == 4, 15)
    eventually(lambda: gauge.in_flight() == OnBroker(3, 4), 15)
    (alive,) = eventually(gauge.workers, 15)
    assert (alive.pid, alive.queues, alive.capacity) == (worker.pid, ("deliver",), 4)

    worker.kill()
    worker.wait()

    def forgotten():
        """Three seconds after its last word, by the broker's clock, however late it is looked at; and no sooner."""
        ((_, spoke),) = server.client.zrange(KEY, 0, -1, withscores=True)
        before = broker_time(server)
        found = gauge.in_flight()
        if broker_time(server) < spoke + SILENT_AFTER:
            assert found == OnBroker(3, 4)
        if before <= spoke + SILENT_AFTER:
            return False
        assert found == OnBroker(3, 0)
        return True

    eventually(forgotten, 20)
    assert server.client.hlen("reminders:unacked") == 4  # the ghosts are still there
    publisher.close()

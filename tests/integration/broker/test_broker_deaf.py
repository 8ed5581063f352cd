"""A worker that has stopped asking the broker: it ends itself, and its parent starts another."""

import signal
from uuid import uuid4

from reminders.broker.gauge import RedisGauge
from reminders.broker.publishing import KombuPublisher
from reminders.pipeline.ports import Message

from .conftest import eventually, worker_argv


def test_a_deaf_worker_is_replaced(probe, broker_settings):
    publisher = KombuPublisher(broker_settings)
    probe.parent(
        ("worker", ["-m", *worker_argv("deliver")]), PROBE_DEAF_AFTER="2", PROBE_POLLS_WITHIN="2", REMINDERS_GRACE="16s"
    )
    probe.await_ready()
    publisher.publish([Message(uuid4(), "deafen", "deliver")])
    (deaf,) = eventually(lambda: probe.notes("deliver"), 10)

    publisher.publish([Message(uuid4(), "heard-1", "deliver"), Message(uuid4(), "heard-2", "deliver")])

    eventually(lambda: {"heard-1", "heard-2"} <= {note[2] for note in probe.notes("deliver")}, 60)
    assert probe.notes("deliver")[-1][-1] != deaf[-1]
    assert "asked the broker nothing" in probe.output()
    publisher.close()


def server_seconds(server):
    return server.client.time()[0]


def test_a_worker_that_is_full_is_not_deaf(server, probe, broker_settings):
    publisher = KombuPublisher(broker_settings)
    worker = probe.worker("deliver", concurrency=1, PROBE_DEAF_AFTER="2", PROBE_POLLS_WITHIN="2")
    publisher.publish([Message(uuid4(), "wait", "deliver"), Message(uuid4(), "next", "deliver")])
    eventually(lambda: probe.notes("begin"), 10)

    # Presence goes on and on, from a worker that asks for nothing: 4 s are more than both limits together.
    gauge = RedisGauge(broker_settings)
    seen = server_seconds(server)
    eventually(lambda: server_seconds(server) > seen + 4 and gauge.workers(), 20)
    assert worker.poll() is None
    probe.let_go()

    eventually(lambda: [note[2] for note in probe.notes("deliver")] == ["wait", "next"], 10)
    assert worker.poll() is None
    publisher.close()


def test_a_worker_that_was_frozen_is_not_deaf(server, probe, broker_settings):
    publisher = KombuPublisher(broker_settings)
    worker = probe.worker("deliver", PROBE_DEAF_AFTER="2", PROBE_POLLS_WITHIN="2")

    worker.send_signal(signal.SIGSTOP)
    frozen = server_seconds(server)
    eventually(lambda: server_seconds(server) > frozen + 4, 20)
    worker.send_signal(signal.SIGCONT)
    publisher.publish([Message(uuid4(), "after", "deliver")])

    eventually(lambda: [note[2] for note in probe.notes("deliver")] == ["after"], 10)
    assert worker.poll() is None
    assert "ending this worker" not in probe.output()
    publisher.close()

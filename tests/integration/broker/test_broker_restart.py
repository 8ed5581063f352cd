"""Redis killed and started again under a busy, supervised worker."""

from uuid import uuid4

import pytest

from reminders.broker.gauge import RedisGauge
from reminders.broker.publishing import KombuPublisher
from reminders.pipeline.ports import Message

from .conftest import eventually, worker_argv


def delivered(probe):
    return {note[2] for note in probe.notes("deliver")}


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.long)])
def test_a_supervised_worker_is_back_after_redis_restarts(times, server, probe, broker_settings):
    publisher = KombuPublisher(broker_settings)
    gauge = RedisGauge(broker_settings)
    parent = probe.parent(("worker", ["-m", *worker_argv("deliver")]))
    probe.await_ready()

    for round_ in range(times):
        held = [Message(uuid4(), "wait", "deliver") for _ in range(4)]
        publisher.publish(held + [Message(uuid4(), f"queued-{round_}-{n}", "deliver") for n in range(20)])
        eventually(
            lambda held=held: {note[1] for note in probe.notes("begin")} >= {str(m.reminder_id) for m in held}, 60
        )
        server.kill()
        probe.let_go()  # the running tasks end while there is nobody to acknowledge to
        eventually(
            lambda held=held: {note[1] for note in probe.notes("deliver")} >= {str(m.reminder_id) for m in held}, 9
        )
        server.start()
        (probe.folder / "go").unlink()

        fresh = f"fresh-{round_}"
        eventually(lambda fresh=fresh: publisher.publish([Message(uuid4(), fresh, "deliver")]) == 1, 20)
        eventually(lambda fresh=fresh: fresh in delivered(probe), 60)
        eventually(lambda: [worker.queues for worker in gauge.workers() or ()] == [("deliver",)], 10)

    assert parent.poll() is None
    assert probe.output().count("worker started as process") == 1  # kombu alone would have ended it (see transport.QoS)
    publisher.close()
    gauge.close()


def test_a_lost_connection_can_be_closed_a_second_time(server, sender, reading):
    sender.send_task("reminders.deliver", ("reminder", "key"))
    channel = reading().default_channel
    assert channel.basic_get("deliver") is not None
    server.kill()
    channel.connection.client = None  # what the first closing leaves behind

    channel.close()

    assert channel.closed


def test_beat_and_a_waiting_worker_are_back_after_redis_was_away(server, probe, broker_settings):
    schedule = '{"scan-due": {"task": "reminders.scan_due", "schedule": 1.0}}'
    children = [
        ("beat", ["-m", "reminders.supervised", "-A", "probe", "beat"]),
        ("worker", ["-m", *worker_argv("scan")]),
    ]
    probe.parent(*children, PROBE_SCHEDULE=schedule, PROBE_SCAN_IDLE="600")  # so that only beat wakes the scan
    eventually(lambda: len(probe.notes("scan")) >= 3, 20)

    server.kill()
    eventually(lambda: "Connection to broker lost" in probe.output(), 10)
    server.start()
    before = len(probe.notes("scan"))

    eventually(lambda: len(probe.notes("scan")) >= before + 3, 60)

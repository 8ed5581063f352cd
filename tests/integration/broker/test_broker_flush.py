"""A Redis that lost everything: what is sent afterwards, over connections from before, must arrive."""

import json
from uuid import uuid4

from reminders.broker.publishing import KombuPublisher
from reminders.pipeline.ports import Message

from .conftest import eventually

SCHEDULE = {"scan-due": {"task": "reminders.scan_due", "schedule": 0.5, "options": {"expires": 60}}}


def test_old_connections_publish_into_a_flushed_redis(server, probe, broker_settings, sender, all_queues):
    sender.send_task("reminders.make_partitions")
    publisher = KombuPublisher(broker_settings)
    publisher.publish([Message(uuid4(), "before", "deliver")])
    probe.worker(all_queues)
    beat = probe.run(["-m", "reminders.supervised", "-A", "probe", "beat"], "beat", PROBE_SCHEDULE=json.dumps(SCHEDULE))
    eventually(lambda: probe.notes("deliver") and probe.notes("maintenance") and len(probe.notes("scan")) >= 3, 20)

    server.client.flushall()
    (probe.folder / "notes").unlink()
    assert publisher.publish([Message(uuid4(), "after", "deliver")]) == 1
    sender.send_task("reminders.make_partitions")
    probe.run(["-m", "reminders.supervised", "-A", "probe", "call", "reminders.deliver", "-a", '["id", "by-call"]'])

    eventually(lambda: [note[2] for note in probe.notes("deliver")] == ["after", "by-call"], 20)
    eventually(lambda: probe.notes("maintenance"), 20)
    eventually(lambda: len(probe.notes("scan")) >= 3, 10)  # beat goes on ticking
    assert beat.poll() is None
    publisher.close()


def test_a_scanner_whose_tick_was_flushed_wakes_itself(server, probe):
    probe.worker("scan", PROBE_SCAN_IDLE="2")
    eventually(lambda: probe.notes("scan"), 10)  # the wake-up at start
    server.client.flushall()
    before = len(probe.notes("scan"))

    eventually(lambda: len(probe.notes("scan")) > before, 15)

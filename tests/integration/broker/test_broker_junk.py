"""Bytes that are no message, on every queue: dropped and counted, and the worker that found them lives."""

import json
from base64 import b64encode
from uuid import uuid4

from reminders.broker.junk import NO_MESSAGE
from reminders.broker.publishing import KombuPublisher
from reminders.celery_options import QUEUES
from reminders.pipeline.ports import Message

from .conftest import eventually


def body(value):
    return b64encode(json.dumps(value).encode()).decode()


def junk_from(good):
    """One message for each way of being wrong that has ended a worker, and some that might."""
    yield from [b"", b"\xff\xfe\x00", b"null", b"5", b'"x"', b"[]", b"{}", b"{" * 5000, b"[" * 100_000]
    yield b'{"__type__": "uuid", "__value__": 5}'
    for part in ("body", "headers", "properties", "content-type", "content-encoding"):
        for value in (None, 5, "private-text", []):
            yield json.dumps({**good, part: value}).encode()
    for name, value in [("delivery_tag", None), ("delivery_tag", ""), ("delivery_info", None), ("body_encoding", None)]:
        yield json.dumps({**good, "properties": {**good["properties"], name: value}}).encode()
    for name, value in [("id", None), ("id", {}), ("task", 5), ("eta", 5), ("timelimit", [1]), ("retries", "x")]:
        yield json.dumps({**good, "headers": {**good["headers"], name: value}}).encode()
    for value in (5, "private-text", [], [1, 2, 3], [[], {}], [[], {}, None], None):
        yield json.dumps({**good, "body": body(value)}).encode()
    yield json.dumps({**good, "headers": {**good["headers"], "compression": "application/x-gzip"}}).encode()


def odd_from(good):
    """Well-formed, and Celery's own to refuse."""
    for name, value in [("task", "no.such.task"), ("eta", "yesterday"), ("expires", "never"), ("shadow", "other")]:
        yield json.dumps({**good, "headers": {**good["headers"], name: value}}).encode()
    yield json.dumps({**good, "body": body([["only-one"], {}, {}])}).encode()


def test_no_bytes_on_any_queue_end_a_worker(server, probe, broker_settings, gauge, all_queues):
    publisher = KombuPublisher(broker_settings)
    publisher.publish([Message(uuid4(), "template", "maintenance")])
    good = json.loads(server.client.lindex("reminders:maintenance", 0))
    worker = probe.worker(all_queues)
    junk = list(junk_from(good))

    for queue in QUEUES:
        server.client.lpush(f"reminders:{queue}", *junk, *odd_from(good))
        publisher.publish([Message(uuid4(), f"after-junk-{queue}", queue)])

    expected = {"template", *(f"after-junk-{queue}" for queue in QUEUES)}
    eventually(lambda: {note[2] for note in probe.notes("deliver")} >= expected, 30)
    assert worker.poll() is None
    assert probe.output().count(" ready.") == 1  # it did not even reconnect
    counted = {NO_MESSAGE: len(junk) * len(QUEUES), "no.such.task": len(QUEUES)}
    eventually(lambda: (gauge.dropped() or {}).items() >= counted.items(), 20)
    eventually(lambda: server.client.hlen("reminders:unacked") == 0, 10)
    assert sum(server.waiting(queue) for queue in QUEUES) == 0
    dropped = [line for line in probe.output().splitlines() if "Dropped" in line]
    assert len([line for line in dropped if "not a task message" in line]) == len(junk) * len(QUEUES)
    assert len([line for line in dropped if "for task no.such.task" in line]) == len(QUEUES)
    assert "only-one" not in probe.output(), "nor does Celery log what a foreign message carries"
    assert not any("private-text" in line for line in dropped)
    publisher.close()

"""Messages that are nearly right, hundreds of them: no worker dies of one, none comes back, and good ones pass."""

import copy
import json
import random
from base64 import b64encode
from uuid import UUID, uuid4

import psutil
import pytest
from celery import Celery
from celery.app.task import Context

from reminders.broker.junk import NO_MESSAGE
from reminders.broker.publishing import KombuPublisher
from reminders.broker.transport import AMQP
from reminders.celery_options import QUEUES
from reminders.pipeline.ports import Message

from .conftest import eventually, worker_argv

SECRET = "private-text"
NAMES = [*vars(Context), "update", "utc", "meth", "compression", "loglevel", "a-header", "consumer_tag", "x-death"]
VALUES = [
    *(None, True, 0, -1, 5, 1e300, 10**30, "", "x", SECRET, "\ud800", "a\nb", [], [5], [["a"]], ["a"], [None, None]),
    *({}, {"a": 1}, {"__type__": "uuid", "__value__": 5}, {"__type__": "datetime", "__value__": "never"}),
    *("0001-01-01T00:00:00+14:00", "9999-99-99", "2020-01-01T00:00:00", "application/x-gzip", "reminders.deliver"),
]
FATAL = [
    *({"stamped_headers": 5}, {"stamped_headers": [["a"]]}, {"stamped_headers": ["a"], "stamps": 5}),
    *({"stamped_headers": [{}], "stamps": {"a": 1}}, {"timelimit": 5}, {"timelimit": {"a": 1}}, {"id": ["a"]}),
]
"""Headers with which Celery's consumer fails."""
LEAKING = [{"get": 5}, {"__dict__": 5}, {"_protected": 5}, {"retries": 10**9}, {"errbacks": 5}, {"chord": 5}]
"""Headers with which the thread that has the task fails, or would for ever hold the message."""


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from places(part, (*path, name))


def mutate(chance, message):
    """`message`, whose body is still a list, with one to three things changed; as bytes."""
    changed = copy.deepcopy(message)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([path for path in places(changed) if path] or [("body",)])
        parent = changed
        for name in path[:-1]:
            parent = parent[name]
        way = chance.random()
        if way < 0.2:
            del parent[path[-1]]
        elif way < 0.7:
            parent[path[-1]] = copy.deepcopy(chance.choice(VALUES))
        else:
            target = chance.choice([changed, changed.get("headers"), changed.get("properties"), parent])
            if isinstance(target, dict):
                target[chance.choice(NAMES)] = copy.deepcopy(chance.choice(VALUES))
    return encoded(changed)


def encoded(message):
    if not isinstance(message.get("body"), str) and "body" in message:
        message = {**message, "body": b64encode(json.dumps(message["body"]).encode()).decode()}
    return json.dumps(message).encode()


def damage(chance, raw):
    """Bytes of a message, cut or with a few of them changed."""
    raw = bytearray(raw[: chance.randint(0, len(raw))] if chance.random() < 0.3 else raw)
    for _ in range(chance.randint(1, 4) if raw else 0):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def template(chance, queue, task):
    """A good message as kombu would put it on `queue`, except that its body is still a list."""
    task_id, tag = (str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(2))
    # Of no process and no host: a name of another length would make other messages of the same chance.
    made = AMQP(Celery(set_as_current=False)).as_task_v2(
        task_id, task, ("id", "key"), ignore_result=True, origin="gen12345@host"
    )
    return {
        "body": list(made.body),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": made.headers,
        "properties": {
            **made.properties,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": tag,
            "body_encoding": "base64",
            "priority": 0,
        },
    }


TASKS = {"scan": "reminders.scan_due", "maintenance": "reminders.make_partitions"}


def nearly_right(chance, queue):
    task = TASKS.get(queue, "reminders.deliver")
    for headers in (*FATAL, *LEAKING):
        message = template(chance, queue, task)
        yield encoded({**message, "headers": {**message["headers"], **headers}})
    for _ in range(130):
        yield mutate(chance, template(chance, queue, task))
    for _ in range(40):
        yield damage(chance, encoded(template(chance, queue, task)))


@pytest.fixture
def publisher(broker_settings):
    publisher = KombuPublisher(broker_settings)
    yield publisher
    publisher.close()


def two_workers(probe, **environ):
    """A parent, and the process ids of its two workers, which together consume all queues."""
    parent = probe.parent(
        ("deliver", ["-m", *worker_argv("deliver,retry,alone")]),
        ("others", ["-m", *worker_argv("scan,maintenance", concurrency=2)]),
        **environ,
    )
    probe.await_ready(2)
    return parent, {child.pid for child in psutil.Process(parent.pid).children()}


def all_is_well(probe, server, publisher, parent, workers):
    """A good message passes on every queue, nothing is left over, and the workers are those of the beginning."""
    publisher.publish([Message(uuid4(), f"good-{queue}", queue) for queue in QUEUES])
    good = {f"good-{queue}" for queue in QUEUES}
    eventually(lambda: {note[2] for note in probe.notes("deliver")} >= good, 30)
    eventually(lambda: sum(server.waiting(queue) for queue in QUEUES) == 0, 10)
    eventually(lambda: server.client.hlen("reminders:unacked") == 0, 10)
    assert {child.pid for child in psutil.Process(parent.pid).children()} == workers
    assert "starting it again" not in probe.output()
    assert probe.output().count(" ready.") == 2  # nobody had to connect again either


def dropped(probe):
    return [line for line in probe.output().splitlines() if "Dropped " in line]


def test_no_nearly_right_message_ends_a_worker(server, probe, gauge, publisher):
    chance = random.Random(20260801)
    parent, workers = two_workers(probe)

    for queue in QUEUES:
        messages = list(nearly_right(chance, queue))
        assert len(messages) > 150
        server.client.lpush(f"reminders:{queue}", *messages)

    all_is_well(probe, server, publisher, parent, workers)
    assert len(dropped(probe)) > 500
    assert not any(SECRET in line or "makes the consumer fail" in line for line in dropped(probe))
    eventually(lambda: sum(gauge.dropped().values()) == len(dropped(probe)), 20)


def test_what_the_envelope_overlooks_ends_no_worker_either(server, probe, gauge, publisher):
    chance = random.Random(20260801)
    parent, workers = two_workers(probe, PROBE_LENIENT="1")

    for queue in QUEUES:
        for headers in FATAL:
            message = template(chance, queue, TASKS.get(queue, "reminders.deliver"))
            message["headers"] |= {"origin": SECRET, **headers}
            server.client.lpush(f"reminders:{queue}", encoded(message))

    all_is_well(probe, server, publisher, parent, workers)
    lines = [line for line in dropped(probe) if "makes the consumer fail" in line]
    assert len(lines) >= 4 * len(QUEUES)
    assert SECRET not in probe.output()
    eventually(lambda: gauge.dropped() == {NO_MESSAGE: len(lines)}, 20)

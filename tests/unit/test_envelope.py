"""Which bytes count as a message."""

import json
from base64 import b64encode

import pytest
from celery import Celery

from reminders.broker.envelope import fault_of
from reminders.broker.transport import AMQP


def genuine(**headers):
    """What kombu puts on a queue for `reminders.deliver`."""
    task = AMQP(Celery(set_as_current=False)).as_task_v2("an-id", "reminders.deliver", ("reminder", "key"))
    return {
        "body": b64encode(json.dumps(task.body).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**task.headers, **headers},
        "properties": {
            **task.properties,
            "delivery_tag": "a-tag",
            "delivery_info": {"exchange": "", "routing_key": "deliver"},
            "priority": 0,
            "body_encoding": "base64",
        },
    }


def raw(message):
    return json.dumps(message).encode()


def test_what_celery_sends_is_a_message():
    assert fault_of(raw(genuine()), "deliver") is None
    assert fault_of(raw(genuine(eta="2026-01-01T00:00:00+00:00", retries=3, timelimit=[10, 5.5])), "deliver") is None
    assert fault_of(raw(genuine(redelivered=True)), "deliver") is None


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\xff", "cannot be decoded (UnicodeDecodeError)"),
        (b"{", "cannot be decoded (JSONDecodeError)"),
        (b"[" * 100_000, "cannot be decoded (RecursionError)"),
        (b'{"__type__": "uuid", "__value__": 1}', "cannot be decoded"),
        (b"7", "is no object"),
        (b"{}", "has no delivery tag"),
    ],
)
def test_other_bytes_are_none(content, fault):
    assert (fault_of(content, "deliver") or "").startswith(fault)


def test_replies_of_remote_control_need_an_envelope_only():
    reply = genuine()
    reply["headers"] = {"ticket": "x"}
    reply["body"] = "bm90IGEgdGFzaw=="
    assert fault_of(raw(reply), "a.reply.celery.pidbox") is None
    assert fault_of(raw(reply), "deliver") == "names no task"
    del reply["properties"]["delivery_info"]
    assert fault_of(raw(reply), "a.reply.celery.pidbox") == "has no delivery information"


def test_pickle_is_no_message():
    message = genuine()
    message["content-type"] = "application/x-python-serialize"
    assert fault_of(raw(message), "deliver") == "is not JSON"


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("id", ["a"], "names no task"),
        ("task", "two\nlines", "names no task"),
        ("stamped_headers", 5, "has malformed headers"),
        ("stamped_headers", [["a"]], "has malformed headers"),
        ("stamps", ["a"], "has malformed headers"),
        ("timelimit", 5, "has malformed headers"),
        ("retries", -1, "has malformed headers"),
        ("retries", 10**9, "has malformed headers"),
        ("retries", None, "has malformed headers"),
        ("expires", "", "has malformed headers"),
        ("headers", 5, "has malformed headers"),
        ("update", 5, "has headers that Celery keeps for itself"),
        ("errbacks", [{}], "has headers that Celery keeps for itself"),
        ("_protected", 1, "has headers that Celery keeps for itself"),
        ("origin", "\ud800", "cannot be decoded (UnicodeEncodeError)"),
        ("sentry-trace", {"any": ["thing"]}, None),
        ("origin", "\U0001f600", None),
    ],
)
def test_headers_that_celery_reads_are_what_it_takes_them_for(name, value, fault):
    assert fault_of(raw(genuine(**{name: value})), "deliver") == fault


@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        ({"delivery_tag": None}, "has no delivery tag"),
        ({"delivery_tag": ""}, "has no delivery tag"),
        ({"priority": "high"}, "has malformed properties"),
        ({"reply_to": 5}, "has malformed properties"),
        ({"delivery_info": {"exchange": "x", "routing_key": "deliver"}}, "has a route that is none of ours"),
        ({"delivery_info": {"exchange": "", "routing_key": "workers"}}, "has a route that is none of ours"),
        ({"delivery_info": {"exchange": "", "routing_key": "deliver", "consumer_tag": "1"}}, "names its consumer"),
        ({"delivery_info": {"exchange": "", "routing_key": "deliver", "redelivered": True}}, None),
        ({"priority": None}, None),
    ],
)
def test_a_message_can_be_acknowledged_and_put_back(properties, fault):
    message = genuine()
    message["properties"] |= properties
    assert fault_of(raw(message), "deliver") == fault


@pytest.mark.parametrize(
    ("embedded", "fault"),
    [
        ({"callbacks": [{"task": "x"}]}, "asks for other tasks after it"),
        ({"chord": 5}, "asks for other tasks after it"),
        ({"args": None}, "asks for other tasks after it"),
        ({"callbacks": [], "errbacks": None}, None),
    ],
)
def test_a_task_asks_for_no_other(embedded, fault):
    message = genuine()
    message["body"] = b64encode(json.dumps([["id", "key"], {}, embedded]).encode()).decode()
    assert fault_of(raw(message), "deliver") == fault

"""What a task message must look like before it may reach Celery.

Everything that Celery reads without a guard, in the consumer and around the task, is checked here: a message that fails
there is either popped and fatal, or fatal and put back, which ends one worker after the other.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from celery.app.task import Context
from kombu.utils.json import loads

from reminders.celery_options import QUEUES

MOST_RETRIES = 100_000
"""More than our tasks' retries come to in a month; Celery raises two to the power of the header."""
_EMBEDDED = frozenset({"callbacks", "errbacks", "chain", "chord"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """What was read: the message as kombu would read it, and why it is none; no fault if it is one."""

    message: Any
    fault: str | None


def fault_of(raw: bytes, queue: str) -> str | None:
    """Why `raw`, popped from `queue`, is no message; None if it is one."""
    return read(raw, queue).fault


def read(raw: bytes, queue: str) -> Envelope:
    """Read what was popped from `queue`.

    On our own queues it must be a task message (protocol 2, JSON) that asks for nothing after the task; on any other
    (replies of remote control) an envelope is enough.
    """
    try:
        message = _decoded(raw)
    except Exception as error:  # noqa: BLE001 - kombu's decoders of typed values raise whatever the value makes them
        return Envelope(None, f"cannot be decoded ({type(error).__name__})")
    fault = _envelope_fault(message)
    if fault is None and queue in QUEUES:
        fault = _route_fault(message["properties"]) or _header_fault(message["headers"]) or _body_fault(message)
    return Envelope(message, fault)


def _decoded(raw: bytes) -> Any:
    text = raw.decode()
    # kombu turns objects marked __type__ into values, and fails on unknown ones; its decoder costs three times more.
    value = loads(text) if "__type__" in text else json.loads(text)  # type: ignore[no-untyped-call]
    if "\\ud" in text or "\\uD" in text:
        json.dumps(value, ensure_ascii=False, default=str).encode()  # half a surrogate pair can be written nowhere
    return value


def _envelope_fault(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "is no object"
    properties = message.get("properties")
    if not isinstance(properties, dict) or not isinstance(tag := properties.get("delivery_tag"), str) or not tag:
        return "has no delivery tag"  # an empty one stands for none where messages are taken
    delivery = properties.get("delivery_info")
    if not isinstance(delivery, dict):
        return "has no delivery information"
    if not isinstance(delivery.get("exchange"), str) or not isinstance(delivery.get("routing_key"), str):
        return "has no route"
    if "consumer_tag" in delivery:
        return "names its consumer"  # and would then never be acknowledged
    if not isinstance(message.get("headers"), dict) or not isinstance(message.get("body"), str):
        return "has no headers or no body"
    return None


def _route_fault(properties: dict[str, Any]) -> str | None:
    delivery = properties["delivery_info"]
    if delivery["exchange"] or delivery["routing_key"] not in QUEUES:
        return "has a route that is none of ours"  # where it would be put back
    if not (_is_text(properties.get("reply_to")) and _is_text(properties.get("correlation_id"))):
        return "has malformed properties"
    if not _is_whole(properties.get("priority")):
        return "has malformed properties"
    return None


def _header_fault(headers: dict[str, Any]) -> str | None:
    if "task" not in headers or "id" not in headers:
        return "names no task"
    for name, value in headers.items():
        check = _HEADERS.get(name)
        if check is not None:
            if not check(value):
                return "names no task" if name in {"task", "id"} else "has malformed headers"
        elif value is not None and (name.startswith("_") or hasattr(Context, name)):
            # Celery lays the headers over its own object for the running task, methods and all.
            return "has headers that Celery keeps for itself"
    return None


def _body_fault(message: dict[str, Any]) -> str | None:
    if message.get("content-type") != "application/json" or message.get("content-encoding") != "utf-8":
        return "is not JSON"
    if message["properties"].get("body_encoding") != "base64" or "compression" in message["headers"]:
        return "has a body in an unknown encoding"
    try:
        body = _decoded(b64decode(message["body"], validate=True))
    except Exception:  # noqa: BLE001 - as above
        return "has a body that cannot be decoded"
    if not isinstance(body, list) or len(body) != 3:
        return "has a malformed body"
    arguments, named, embedded = body
    if not (isinstance(arguments, list) and isinstance(named, Mapping) and isinstance(embedded, Mapping)):
        return "has a malformed body"
    if not embedded.keys() <= _EMBEDDED or any(value not in (None, []) for value in embedded.values()):
        return "asks for other tasks after it"
    return None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_text(value: Any) -> bool:
    return isinstance(value, str | None)


def _is_instant(value: Any) -> bool:
    return _is_text(value) and value != ""  # Celery refuses other texts that name none


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | None)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict | None)


def _is_time_limit(value: Any) -> bool:
    if not value:
        return value is None or value == []
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, int | float | None) for each in value)


def _is_stamps(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _is_retries(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST_RETRIES


_HEADERS: dict[str, Callable[[Any], bool]] = {
    "task": _is_name,
    "id": _is_name,
    **dict.fromkeys(("eta", "expires"), _is_instant),
    **dict.fromkeys(("shadow", "root_id", "parent_id", "group", "origin", "lang"), _is_text),
    **dict.fromkeys(("argsrepr", "kwargsrepr"), _is_text),
    **dict.fromkeys(("group_index", "replaced_task_nesting", "ignore_result"), _is_whole),
    "retries": _is_retries,
    "timelimit": _is_time_limit,
    "stamped_headers": _is_stamps,
    "stamps": _is_object,
    "headers": _is_object,
}
"""What may stand in each header that Celery gives a meaning. Others are an application's own."""

"""What a task message must look like before it may reach Celery.

Everything that Celery's consumer reads without a guard is checked here: a message that fails there is either popped
and fatal, or fatal and put back, which ends one worker after the other.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from kombu.utils.json import loads

from reminders.celery_options import QUEUES


def fault_of(raw: bytes, queue: str) -> str | None:
    """Why `raw`, popped from `queue`, is no message; None if it is one.

    On our own queues it must be a task message (protocol 2, JSON); on any other (replies of remote control) an
    envelope is enough.
    """
    try:
        text = raw.decode()
        # kombu turns objects marked __type__ into values, and fails on unknown ones; its decoder costs three times more.
        message = loads(text) if "__type__" in text else json.loads(text)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - kombu's decoders of typed values raise whatever the value makes them
        return f"cannot be decoded ({type(error).__name__})"
    fault = _envelope_fault(message)
    if fault is None and queue in QUEUES:
        fault = _task_fault(message)
    return fault


def _envelope_fault(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "is no object"
    properties = message.get("properties")
    if not isinstance(properties, dict) or not isinstance(properties.get("delivery_tag"), str):
        return "has no delivery tag"
    delivery = properties.get("delivery_info")
    if not isinstance(delivery, dict):
        return "has no delivery information"
    if not isinstance(delivery.get("exchange"), str) or not isinstance(delivery.get("routing_key"), str):
        return "has no route"
    if not isinstance(message.get("headers"), dict) or not isinstance(message.get("body"), str):
        return "has no headers or no body"
    return None


def _task_fault(message: dict[str, Any]) -> str | None:
    headers: dict[str, Any] = message["headers"]
    if not isinstance(headers.get("task"), str) or not isinstance(headers.get("id"), str):
        return "names no task"
    texts_or_nothing = ("eta", "expires", "shadow", "root_id", "parent_id", "group", "origin", "lang")
    if not all(isinstance(headers.get(name), str | None) for name in texts_or_nothing):
        return "has malformed headers"
    if not isinstance(headers.get("retries", 0), int) or not _is_time_limit(headers.get("timelimit")):
        return "has malformed headers"
    if message.get("content-type") != "application/json" or message.get("content-encoding") != "utf-8":
        return "is not JSON"
    if message["properties"].get("body_encoding") != "base64" or "compression" in headers:
        return "has a body in an unknown encoding"
    try:
        body = json.loads(b64decode(message["body"], validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return "has a body that cannot be decoded"
    if not isinstance(body, list) or len(body) != 3:
        return "has a malformed body"
    arguments, named, embedded = body
    if not (isinstance(arguments, list) and isinstance(named, Mapping) and isinstance(embedded, Mapping)):
        return "has a malformed body"
    return None


def _is_time_limit(value: Any) -> bool:
    if not value:
        return value is None or value == []
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, int | float | None) for each in value)

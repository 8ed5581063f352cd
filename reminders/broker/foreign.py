"""Messages that Celery itself refuses: for a task this release does not have, or with headers it cannot use."""

from __future__ import annotations

import logging
from typing import Any

from celery import signals
from celery.worker.consumer import consumer

from reminders.broker.junk import drop_malformed, drop_unknown

_ITS_OWN_WORDS = frozenset({consumer.UNKNOWN_TASK_ERROR, consumer.INVALID_TASK_ERROR, consumer.UNKNOWN_FORMAT})


def count_foreign_messages() -> None:
    """Log each in a line of ours and count it by the task it names. Celery has acknowledged it by then.

    Celery's own lines about them show their arguments, and nobody knows what those are.
    """
    signals.task_unknown.connect(_on_unknown, weak=False, dispatch_uid=f"{__name__}.unknown")
    signals.task_rejected.connect(_on_rejected, weak=False, dispatch_uid=f"{__name__}.rejected")
    logging.getLogger(consumer.__name__).addFilter(_is_another_matter)


def _on_unknown(name: object, **_: Any) -> None:
    drop_unknown(name)


def _on_rejected(message: Any, **_: Any) -> None:
    headers = message.headers
    drop_malformed(headers.get("task") if isinstance(headers, dict) else None, "it is no message that a task can use")


def _is_another_matter(record: logging.LogRecord) -> bool:
    return record.msg not in _ITS_OWN_WORDS

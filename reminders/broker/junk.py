"""What is on our queues and is not ours: dropped, logged once each, counted by what it called itself."""

from __future__ import annotations

import hashlib
import logging
from traceback import extract_tb
from typing import Any

from kombu.utils.json import dumps

from reminders.pipeline.tally import Tally

logger = logging.getLogger(__name__)


NO_MESSAGE = "(no message)"
"""Under which bytes are counted that name no task."""
LONGEST_NAME = 80


def _shown(name: object) -> str:
    text = name if isinstance(name, str) and name else NO_MESSAGE
    return "".join(each if each.isprintable() else "?" for each in text[:LONGEST_NAME])


dropped = Tally([NO_MESSAGE])
"""Dropped by this process and not yet reported to the broker."""


def drop(raw: bytes, queue: str, fault: str) -> None:
    """Log and count. The content itself is never logged: nobody knows what it is."""
    dropped.add(NO_MESSAGE)
    digest = hashlib.sha256(raw).hexdigest()[:16]
    logger.error(
        "junk.bytes_dropped: Dropped %d bytes from queue %s (sha256 %s): not a task message, it %s",
        len(raw),
        queue,
        digest,
        fault,
    )


def drop_unread(message: Any, queue: str, error: Exception) -> None:
    """The same for a decoded message that looked right and made its consumer raise `error`."""
    place = extract_tb(error.__traceback__)[-1]
    raw = dumps(message).encode()  # type: ignore[no-untyped-call]
    drop(raw, queue, f"makes the consumer fail ({type(error).__name__} in {place.name}, line {place.lineno})")


def drop_unknown(name: object) -> None:
    """Log and count a message for a task that this release does not have. Its arguments are not logged."""
    dropped.add(_shown(name))
    logger.error(
        "junk.unknown_task_dropped: Dropped a message for task %s: this release has no such task", _shown(name)
    )


def drop_malformed(name: object, fault: str) -> None:
    """The same for a message whose headers or arguments the task it names cannot use."""
    dropped.add(_shown(name))
    logger.warning("junk.message_dropped: Dropped a message for task %s: %s", _shown(name), fault)

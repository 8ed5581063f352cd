"""Bytes on our queues that are no message: dropped, logged once each, counted."""

from __future__ import annotations

import hashlib
import logging
from threading import Lock
from traceback import extract_tb
from typing import Any

from kombu.utils.json import dumps

logger = logging.getLogger(__name__)


class Tally:
    """Counts until somebody takes the count away."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0

    def add(self, number: int = 1) -> None:
        with self._lock:
            self._count += number

    def take(self) -> int:
        with self._lock:
            count, self._count = self._count, 0
            return count


dropped = Tally()
"""Dropped by this process and not yet reported to the broker."""


def drop(raw: bytes, queue: str, fault: str) -> None:
    """Log and count. The content itself is never logged: nobody knows what it is."""
    dropped.add()
    digest = hashlib.sha256(raw).hexdigest()[:16]
    logger.error(
        "Dropped %d bytes from queue %s (sha256 %s): not a task message, it %s", len(raw), queue, digest, fault
    )


def drop_unread(message: Any, queue: str, error: Exception) -> None:
    """The same for a decoded message that looked right and made its consumer raise `error`."""
    place = extract_tb(error.__traceback__)[-1]
    raw = dumps(message).encode()  # type: ignore[no-untyped-call]
    drop(raw, queue, f"makes the consumer fail ({type(error).__name__} in {place.name}, line {place.lineno})")

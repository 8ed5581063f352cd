"""Bytes on our queues that are no message: dropped, logged once each, counted."""

from __future__ import annotations

import hashlib
import logging
from threading import Lock

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

"""Ids without chance: the product's ids of one example, in the order in which they are drawn.

An order by id is an order of the rows: were it left to chance, an example could not be told again.
"""

from __future__ import annotations

from hashlib import sha256

from model.model_clock import ModelClock


class ModelIds:
    """What `reminders.domain.identity` asks of the machine's clock and of its source of chance."""

    def __init__(self, clock: ModelClock) -> None:
        self._clock = clock
        self._drawn = 0

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return int(self._clock.now.timestamp()) * 1_000_000_000

    def urandom(self, size: int) -> bytes:
        """Spread like chance, so that ids of one millisecond are in no particular order; but the same each time."""
        self._drawn += 1
        return sha256(self._drawn.to_bytes(8, "big")).digest()[:size]

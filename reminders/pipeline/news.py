"""News: what the scanner finds that a person should be told, looked for once a second beside its other work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LOOK_EVERY = 1.0
"""Seconds between two looks."""


@dataclass
class News:
    """One scanner's looks. `look` writes notices; it is given the seconds after which beat counts as silent, or None."""

    look: Callable[[float | None], object]
    silence: float
    """Seconds without a tick of beat. A scanner that has looked for less cannot tell: its own absence may be the reason."""
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _next: float = field(default=float("-inf"), init=False)

    def __call__(self) -> None:
        now = self.clock()
        if now < self._next:
            return
        self._since = now if self._since is None else self._since
        self.look(self.silence if now - self._since > self.silence else None)
        # Crash here: written, or nothing and found again.
        self._next = now + LOOK_EVERY

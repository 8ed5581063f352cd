"""A word on stderr about what a command waits for, once it has waited long enough for somebody to wonder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE = 2.0
"""Seconds of waiting without a word."""


def _on_stderr(line: str) -> None:
    # One write: the command itself may print at the same time.
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def told_if_slow(what: str, *, after: float = SILENCE, tell: Callable[[str], None] = _on_stderr) -> Iterator[None]:
    """Tell `what` the block waits for if it has not ended `after` seconds from now."""
    timer = threading.Timer(after, tell, [f"waiting: {what}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

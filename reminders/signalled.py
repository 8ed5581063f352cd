"""Stopping at a signal. Handlers run in the midst of whatever the main thread does, another handler of the same signal included."""

from __future__ import annotations

import signal
from _thread import start_new_thread
from threading import Event
from typing import Any


def set_from_handler(event: Event) -> None:
    """Set `event` from a signal handler, in a thread of its own: at once, and this returns sooner.

    `Event.set` takes a lock. Where the handler has interrupted a `wait` or `set` of the same event, the main thread would wait
    for itself for ever. (`Thread.start` takes locks too.)
    """
    start_new_thread(event.set, ())


def hear_once(signum: int) -> None:
    """Have the handler of `signum` run for the first signal only, so that it cannot be interrupted by another of its own.

    Platforms tell every process of a dyno to stop, and our parents tell their children: two within microseconds.
    """
    handler: Any = signal.getsignal(signum)
    heard = False

    def first(number: int, frame: Any) -> None:
        nonlocal heard
        if not heard:
            heard = True
            handler(number, frame)

    signal.signal(signum, first)

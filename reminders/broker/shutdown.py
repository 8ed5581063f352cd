"""One flag for the whole worker process: whoever waits long looks at it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Any

from celery import bootsteps

from reminders.signalled import hear_once

logger = logging.getLogger(__name__)

shutting_down = Event()
"""Set once the worker was told to stop. Work that is claimed is finished; nothing new is begun, no waiting goes on."""
given_up = Event()
"""Set before a worker stops itself because it no longer works: that was nobody's wish, and what it worked on may be why."""
AGAIN_AFTER = 1.0
"""Seconds between two attempts to note a shutdown."""


class StopOnce(bootsteps.StartStopStep):  # type: ignore[misc]
    """A step of Celery's worker: when it starts, Celery's handlers are in their places. Theirs of SIGTERM takes locks."""

    def start(self, _worker: Any) -> None:
        hear_once(signal.SIGTERM)


def note_shutdown(record: Callable[[float], None], faults: tuple[type[Exception], ...]) -> None:
    """Have `record` called, with the seconds since, once this worker is told to stop; again after any of `faults`.

    All in a thread of its own, which nobody waits for: neither a signal handler nor the shutdown has to do with it.
    """
    Thread(target=_note, args=(record, faults), name="shutdown", daemon=True).start()


def _note(record: Callable[[float], None], faults: tuple[type[Exception], ...]) -> None:
    shutting_down.wait()
    told_at = monotonic()
    pause = Event()
    while not given_up.is_set():
        try:
            record(monotonic() - told_at)
        except faults:
            # Crash here: whatever is claimed and left unfinished counts as a death.
            pause.wait(AGAIN_AFTER)
        except Exception as error:  # noqa: BLE001 - a note that cannot be made must not get in the way of the shutdown
            logger.warning("shutdown.not_recorded error=%s", type(error).__name__)
            return
        else:
            return

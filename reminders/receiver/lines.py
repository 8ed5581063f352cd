"""A line for each delivery, written by a thread of its own.

Whoever reads the lines may stop reading: a terminal on hold, a full pipe. Deliveries must not wait for that. Lines that
find the backlog full are left out, and a later line says how many; the report's counts stay exact.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol, TextIO

from reminders.receiver.report import Handled

_LONGEST_BACKLOG = 20_000
_LINES_IN_A_WRITE = 1000
_SECONDS_BETWEEN_WRITES = 0.05
"""A thread that woke for each line would take turns with the one that answers: a third of its speed."""


class LineFormat(Protocol):
    """How a delivery is written, and that `count` lines were left out."""

    def line(self, handled: Handled) -> str: ...

    def left_out(self, count: int) -> str: ...


class LineWriter:
    """Writes lines to `stream`. `on_failure` is called once it cannot: nobody reads any more, or the disk is full."""

    def __init__(
        self, stream: TextIO, form: LineFormat, on_failure: Callable[[], None], longest_backlog: int = _LONGEST_BACKLOG
    ) -> None:
        self._stream = stream
        self._form = form
        self._on_failure = on_failure
        self._backlog: queue.Queue[Handled | None] = queue.Queue(longest_backlog)
        self._left_out = 0
        self._failure: OSError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="lines", daemon=True)
        self._thread.start()

    def add(self, handled: Handled) -> None:
        """Have the line written soon. Never waits."""
        try:
            self._backlog.put_nowait(handled)
        except queue.Full:
            self._left_out += 1

    def close(self, seconds: float = 2.0) -> None:
        """Write what is left, if somebody reads it within `seconds`. Raises the `OSError` that made it impossible."""
        self._closing.set()
        try:
            self._backlog.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure

    def _write_all(self) -> None:
        told = 0
        group: list[Handled | None] = []
        while None not in group:
            group = [self._backlog.get()]
            self._closing.wait(_SECONDS_BETWEEN_WRITES)
            while len(group) < _LINES_IN_A_WRITE and not self._backlog.empty():
                group.append(self._backlog.get())
            lines = [self._form.line(handled) for handled in group if handled is not None]
            left_out = self._left_out
            if left_out > told:
                lines.append(self._form.left_out(left_out - told))
                told = left_out
            try:
                self._stream.write("".join(line + "\n" for line in lines))
                self._stream.flush()
            except OSError as error:
                self._failure = error
                self._on_failure()
                return

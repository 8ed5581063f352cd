"""Showing the progress of reading a file on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from reminders.intake.importing import Totals

EVERY = 5.0
"""Seconds between plain lines."""


class PlainProgress:
    """`total` is the file's size in bytes; None if it is not known, and then there is neither share nor estimate.

    Lines begin with the command's name.
    """

    def __init__(
        self, out: TextIO, total: int | None, clock: Callable[[], float] = time.monotonic, command: str = "import"
    ) -> None:
        self._out = out
        self._command = command
        self._total = total
        self._clock = clock
        self._started = self._last = clock()

    def advance(self, totals: Totals, bytes_read: int) -> None:
        if not self._is_time():
            return
        took = self._last - self._started
        line = f"{self._command}: {totals.read:,} records, {totals.read / took:,.0f}/s"
        if self._total and bytes_read:
            left = took * max(self._total - bytes_read, 0) / bytes_read
            line += f", {min(bytes_read / self._total, 1):.0%}, about {left:.0f} s left"
        self.tell(line)

    def now(self, what: str) -> None:
        """What is done now, if it is time for a line."""
        if self._is_time():
            self.tell(f"{self._command}: {what}")

    def tell(self, line: str) -> None:
        print(line, file=self._out, flush=True)

    def _is_time(self) -> bool:
        now = self._clock()
        if now - self._last < EVERY:
            return False
        self._last = now
        return True


class BarProgress:
    """The same as a bar, with rate and estimate."""

    def __init__(self, out: TextIO, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console  # noqa: PLC0415 (60 ms that only terminals need)
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 (the same)

        self._clock = clock
        self._started = clock()
        self.bar = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(compact=True),
            console=Console(file=out),
            refresh_per_second=4,
            get_time=clock,
        )
        self._task = self.bar.add_task("reading", total=total)

    def advance(self, totals: Totals, bytes_read: int) -> None:
        took = max(self._clock() - self._started, 1e-9)
        self.bar.update(
            self._task, completed=bytes_read, description=f"{totals.read:,} records, {totals.read / took:,.0f}/s"
        )

    def now(self, what: str) -> None:
        """What is done now, beside the bar."""
        self.bar.update(self._task, description=what)

    def tell(self, line: str) -> None:
        self.bar.console.print(line, markup=False, highlight=False)


@contextmanager
def shown(total: int | None, command: str = "import") -> Iterator[PlainProgress | BarProgress]:
    """Progress as fits what stderr is."""
    if not sys.stderr.isatty():
        yield PlainProgress(sys.stderr, total, command=command)
        return
    progress = BarProgress(sys.stderr, total)
    with progress.bar:
        yield progress

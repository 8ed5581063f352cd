"""Import: read, check, write, one thousand records after the other. Memory does not grow with the file.

Reading and checking happen in the calling thread, writing in one other, which mostly waits for Postgres. One writer
and not several: of two lines for the same reminder the first is the one that counts, always.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reminders.domain.errors import ServiceUnavailable
from reminders.intake.checking import Batch
from reminders.intake.rejects_file import RejectsFile
from reminders.intake.writing import BatchWriter, Written

_WAITING = 2
"""Batches that are read ahead of the one being written."""


@dataclass(slots=True)
class Totals:
    """What became of the records read so far; `read` is the sum of the others."""

    read: int = 0
    scheduled: int = 0
    existing: int = 0
    rejected: int = 0
    skipped: int = 0


class Observer(Protocol):
    """Is shown how an import goes."""

    def advance(self, totals: Totals, bytes_read: int) -> None:
        """A batch is committed; `bytes_read` of the file are behind it."""


def run_import(
    batches: Iterator[Batch], writer: BatchWriter, rejects: RejectsFile, observer: Observer
) -> tuple[Totals, Path | None]:
    """Schedule what the batches hold; returns the totals and the rejects file, if there is one.

    Raises `ServiceUnavailable` if Postgres stays away, `RemindersError` if the file cannot be read further or the
    rejects not be written. What is committed by then stays.
    """
    totals = Totals()
    last_line = 0
    try:
        with closing(_write_all(batches, writer)) as written_in_order:
            for written in written_in_order:
                last_line = written.batch.last_line
                _count(totals, written)
                rejects.add(written.rejects)
                observer.advance(totals, written.batch.bytes_read)
        return totals, rejects.keep()
    except ServiceUnavailable as error:
        raise ServiceUnavailable(
            f"{error}\nThe ledger has all of the file up to line {last_line} ({totals.scheduled:,} newly scheduled). "
            "Run the same command again to go on: nothing is scheduled twice."
        ) from error
    finally:
        rejects.discard()


def _write_all(batches: Iterator[Batch], writer: BatchWriter) -> Generator[Written, None, None]:
    """Write in order, and yield in order, while the following batches are being read."""
    waiting: deque[Future[Written]] = deque()
    with ThreadPoolExecutor(1, "reminders-import") as executor:
        try:
            for batch in batches:
                waiting.append(executor.submit(writer.write, batch))
                while len(waiting) > _WAITING or (waiting and waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            writer.stop()
            executor.shutdown(wait=False, cancel_futures=True)


def _count(totals: Totals, written: Written) -> None:
    totals.read += written.batch.read
    totals.scheduled += written.scheduled
    totals.existing += written.existing
    totals.rejected += len(written.rejects)
    totals.skipped += written.batch.skipped

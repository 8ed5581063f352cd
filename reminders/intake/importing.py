"""Import: read, check, write, one thousand records after the other. Memory does not grow with the file.

Postgres writes one batch while the next is read and checked. One at a time and in order: of two lines for the same
reminder the first is the one that counts, always.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reminders.domain.errors import ServiceUnavailable
from reminders.intake.checking import Batch
from reminders.intake.rejects_file import RejectsFile
from reminders.intake.writing import BatchWriter, Written

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


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
    batches: Iterable[Batch], writer: BatchWriter, rejects: RejectsFile, observer: Observer
) -> tuple[Totals, Path | None]:
    """Schedule what the batches hold; returns the totals and the rejects file, if there is one.

    Raises `ServiceUnavailable` if Postgres stays away, `RemindersError` if the file cannot be read further or the
    rejects not be written. What is committed by then stays.
    """
    totals = Totals()
    last_line = 0
    try:
        with rare_collections():
            for written in writer.write(batches):
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
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Broken off after {totals.read:,} records; run the same command again to go on: nothing is scheduled twice"
        ) from None
    finally:
        rejects.discard()


@contextmanager
def rare_collections() -> Iterator[None]:
    """A batch is some ten thousand objects without cycles: looking among them for garbage is a tenth of all work."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _count(totals: Totals, written: Written) -> None:
    totals.read += written.batch.read
    totals.scheduled += written.scheduled
    totals.existing += written.existing
    totals.rejected += len(written.rejects)
    totals.skipped += written.batch.skipped

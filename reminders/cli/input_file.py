"""A file that a command imports: opened, measured, and with the name of its rejects file."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from reminders.domain.errors import RemindersError

STDIN = "-"
DONE_WITH_REJECTS = 3
READ_AHEAD = 1 << 18
"""Bytes."""


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    if file == STDIN:
        if sys.stdin is None:
            raise RemindersError("Standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        source = Path(file).open("rb", buffering=READ_AHEAD)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise RemindersError(f"{file} cannot be read: {reason}") from error
    with source:
        yield source


def size_of(source: BinaryIO) -> int | None:
    """In bytes; None for a pipe."""
    try:
        status = os.fstat(source.fileno())
    except (OSError, io.UnsupportedOperation):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def rejects_path(file: str, given: Path | None, *, is_pipe: bool) -> Path:
    """Raises `RemindersError` if rejects would take the place of the records."""
    if given is not None:
        if file != STDIN and given.exists() and given.samefile(file):
            raise RemindersError(f"--rejects names the file to import, {file}; name another")
        return given
    if file == STDIN:
        return Path("stdin.rejects.jsonl")
    return Path(f"{Path(file).name if is_pipe else file}.rejects.jsonl")

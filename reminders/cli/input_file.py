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

from reminders.cli.waiting import told_if_slow
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
        source = open_file(file)
    except (OSError, ValueError) as error:
        raise RemindersError(f"{file or repr(file)} cannot be read: {fault_of(error)}") from error
    with source:
        yield source


def open_file(file: str) -> BinaryIO:
    """Raises `OSError`, and `ValueError` for a name with a NUL. A pipe that nobody writes into is waited for, with a word."""
    with told_if_slow(f"{file} is a pipe, and nobody writes into it"):
        return Path(file).open("rb", buffering=READ_AHEAD)


def fault_of(error: OSError | ValueError) -> str:
    """Why a file cannot be opened or read, in words; a `ValueError` is that of a name with a NUL."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


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
        if file != STDIN and _is_same(given, file):
            raise RemindersError(f"--rejects names the file to import, {file}; name another")
        return given
    if file == STDIN:
        return Path("stdin.rejects.jsonl")
    return Path(f"{Path(file).name if is_pipe else file}.rejects.jsonl")


def _is_same(path: Path, file: str) -> bool:
    try:
        return path.samefile(file)
    except (OSError, ValueError):
        # Whether it can be written at all, is for the rejects file to say.
        return False

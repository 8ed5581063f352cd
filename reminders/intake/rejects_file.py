"""The rejects file: JSON Lines with line, field and reason, there only if there are rejects."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from reminders.domain.errors import RemindersError
from reminders.intake.records import Reject

_LONGEST_LINE = 1 << 20


class RejectsFile:
    """Gathers rejects beside `path` and puts them there at the end, replacing what an earlier run left.

    It holds no copy of a record: the line number leads to it, and the file may then be passed on to whoever mends the
    records' source.
    """

    def __init__(self, path: Path) -> None:
        """Raises `RemindersError` at once if nothing could be written there later."""
        self._path = path
        # Not made of the file's name: a longer one might be too long.
        self._gathered = path.parent / f".rejects.{uuid4().hex}"
        self._file: IO[str] | None = None
        if not _can_be_put(path):
            raise RemindersError(
                f"Rejects cannot be written to {path}\nName a file in a writable folder with --rejects"
            )

    def add(self, rejects: Iterable[Reject]) -> None:
        """Raises `RemindersError` if the disk is full or the like; so does `keep`."""
        with self._told():
            for reject in rejects:
                if self._file is None:
                    self._file = self._gathered.open("x", encoding="ascii")
                fields = {"line": reject.line, "field": reject.field, "reason": reject.reason}
                self._file.write(json.dumps(fields) + "\n")

    def keep(self) -> Path | None:
        """Put the file in place, and say where; None if there is nothing to put.

        Then one that an earlier run left is removed: its lines are in order now.
        """
        if self._file is None:
            if _is_ours(self._path):
                with self._told():
                    self._path.unlink(missing_ok=True)
            return None
        with self._told():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._gathered.replace(self._path)
        self._file.close()
        self._file = None
        return self._path

    def discard(self) -> None:
        """Leave nothing behind, and what an earlier run left as it is."""
        if self._file is not None:
            self._gathered.unlink(missing_ok=True)
            with suppress(OSError):
                self._file.close()
            self._file = None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RemindersError(f"Rejects cannot be written to {self._path}: {error.strerror}") from error


def _can_be_put(path: Path) -> bool:
    """Whether a file can be put there. It would also take the place of a device such as /dev/null, for good: that is no."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return path.name not in {"", ".."} and os.access(path.parent, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        # A name that is too long, has a NUL, leads through a file or in a circle.
        return False
    return stat.S_ISREG(status.st_mode) and os.access(path.parent, os.W_OK | os.X_OK)


def _is_ours(path: Path) -> bool:
    """Whether `path` is a rejects file. Somebody else's file is not removed only because it was named."""
    try:
        with path.open(encoding="ascii") as file:
            first = json.loads(file.readline(_LONGEST_LINE))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and list(first) == ["line", "field", "reason"]

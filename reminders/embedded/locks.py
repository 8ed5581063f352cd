"""An advisory lock on a file, which the kernel drops when the last process that holds it is gone, however it died."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_EVERY = 0.02
"""Seconds between two tries for a lock that another process holds."""


class FileLock:
    """A `flock` on one file.

    The file stays open, so that the lock means the same processes even after somebody has deleted or moved the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Close this process's file; a lock lives on in processes that inherited it."""
        os.close(self.descriptor)

    def take_shared_if_free(self) -> bool:
        return self._take_if_free(fcntl.LOCK_SH)

    def take_exclusive_if_free(self) -> bool:
        """Turns a shared lock of ours into an exclusive one. Where that fails, the shared one may be gone too."""
        return self._take_if_free(fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    @contextmanager
    def held(self, *, shared: bool = False, seconds: float) -> Iterator[None]:
        """Hold the lock for the block. Raises `TimeoutError` when it is not free within `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._take_if_free(fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.path} was held by another process for {seconds:g} s")
            time.sleep(_LOOK_EVERY)
        try:
            yield
        finally:
            self.release()

    def _take_if_free(self, kind: int) -> bool:
        try:
            fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

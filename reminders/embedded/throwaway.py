"""Homes that are used once. A run that was killed leaves its home and its servers; the next run clears them away."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded.locks import FileLock
from reminders.embedded.services import end_unused

_LOCK = "lock"
_HOME = "home"
_PATIENCE = 120.0
"""Seconds to wait for another run that clears away."""


@contextmanager
def throwaway_home(purpose: str) -> Iterator[Path]:
    """A fresh home for the block, removed with everything in it; leftovers of dead runs of `purpose` go first.

    The servers in it are to be stopped by then (`running`).
    """
    parent = _parent(f"reminders-{purpose}-{os.geteuid()}")
    with _locked(parent / _LOCK) as parent_lock, _alone(parent_lock):
        for left in parent.iterdir():
            if left.is_dir():
                _clear_if_dead(left)
        run = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        # Postgres runs as another user when we are root, and must reach its folder below.
        run.chmod(0o711)
        lock = FileLock(run / _LOCK)
        lock.take_exclusive_if_free()
    try:
        yield run / _HOME
    finally:
        try:
            _remove(run)
        finally:
            lock.close()


def _clear_if_dead(run: Path) -> None:
    with suppress(OSError, ServiceUnavailable), _locked(run / _LOCK) as lock:
        # What cannot be ended or removed stays for a later run to try.
        if lock.take_exclusive_if_free() and end_unused(run / _HOME):
            _remove(run)


def _remove(run: Path) -> None:
    data = run / _HOME / "postgres"
    if data.is_symlink():
        # Where root's Postgres could not reach our folder, its data lies elsewhere.
        shutil.rmtree(data.readlink(), ignore_errors=True)
    shutil.rmtree(run, ignore_errors=True)


@contextmanager
def _alone(lock: FileLock) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(lock.held(seconds=_PATIENCE))
        except TimeoutError as error:
            raise ServiceUnavailable(f"Another run is still clearing away: {error}.\nTry again.") from error
        yield


@contextmanager
def _locked(path: Path) -> Iterator[FileLock]:
    lock = FileLock(path)
    try:
        yield lock
    finally:
        lock.close()


def _parent(name: str) -> Path:
    """The folder that all runs of one user find; a fresh one if somebody else has taken its name."""
    wanted = Path(tempfile.gettempdir()) / name
    with suppress(FileExistsError):
        wanted.mkdir(mode=0o711)
    about = wanted.lstat()
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o022:
        return wanted
    fresh = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    fresh.chmod(0o711)
    return fresh

"""Whether a server lives, who it is, and how it is started and ended.

A server inherits an exclusive lock on a file of the home folder and holds it until its last process is dead. So the
lock answers what a pid file cannot: it is held exactly while the server lives, whoever started it and however that
process ended. The pid is only for signals, and it is checked by the start time beside it before one is sent.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reminders.embedded.locks import FileLock
from reminders.embedded.placement import Account

logger = logging.getLogger(__name__)

# The inner shell writes its pid and start time, which the server keeps, before the server's first instruction: there is
# no moment at which a server works and its pid is not on disk. The outer one ends at once, so the server is nobody's
# child and may outlive whoever started it.
_LAUNCH = """/bin/sh -c 'echo $$; cat /proc/$$/stat 2>/dev/null; exec "$@" >&2' sh "$@" &"""
_LOOK_EVERY = 0.01
_REPEAT_EVERY = 1.0
"""Seconds after which a signal is sent again: the shell that becomes the server may have swallowed the first."""
_PID_PATIENCE = 2.0
_CHILDREN_PATIENCE = 1.0
_KILL_PATIENCE = 10.0
_PROC = Path("/proc")


class Lifeline:
    """The lock file of one server; its content is the server's pid and, on Linux, its `/proc/PID/stat` at the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path)

    def close(self) -> None:
        self._lock.close()

    def alive(self) -> bool:
        """Whether any process of the server lives."""
        # A shared lock, so that two that look at the same time do not take each other for a server.
        if not self._lock.take_shared_if_free():
            return True
        self._lock.release()
        return False

    def pid(self) -> int | None:
        """The pid that the server wrote at its start, if that process still is the server."""
        deadline = time.monotonic() + _PID_PATIENCE
        while (pid := self._recorded_pid()) is None:
            if time.monotonic() > deadline or not self.alive():
                return None
            time.sleep(_LOOK_EVERY)
        return pid if _start_time(self._record()[1:]) == _start_time(_lines(_PROC / str(pid) / "stat")) else None

    def launch(
        self, command: Sequence[str], *, folder: Path, log: int, account: Account | None, environment: Mapping[str, str]
    ) -> None:
        """Start `command` in `folder` as `account`, in its own session (a Ctrl-C in the terminal does not reach it).

        `log` is the descriptor its output goes to. To be called only while no server lives and nobody else starts one.
        """
        inherited = FileLock(self.path)
        try:
            if not inherited.take_exclusive_if_free():
                raise BlockingIOError(f"{self.path} is held by a server")
            os.ftruncate(inherited.descriptor, 0)
            subprocess.run(  # noqa: S603 (the command is this package's own)
                ["/bin/sh", "-c", _LAUNCH, "sh", *command],
                check=True,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=inherited.descriptor,
                stderr=log,
                pass_fds=[inherited.descriptor],
                start_new_session=True,
                umask=0o077,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )
        finally:
            # Closed, not released: releasing would take the lock from the server too.
            inherited.close()

    def end(self, steps: Iterable[tuple[signal.Signals, float]]) -> bool:
        """End the server; false when some process of it cannot be ended.

        Each step is a signal and the seconds to wait for the end; after the last one, or when interrupted in between
        (somebody is in a hurry), everything that is left of it is killed.
        """
        try:
            for number, patience in steps:
                deadline = time.monotonic() + patience
                while time.monotonic() < deadline and self._signal(number):
                    if self._gone_within(_REPEAT_EVERY):
                        return True
        except BaseException:
            self._kill_all()
            raise
        return self._kill_all()

    def _kill_all(self) -> bool:
        self._signal(signal.SIGKILL)
        if self._gone_within(_CHILDREN_PATIENCE):
            return True
        # The main process is gone, but a busy child (a Postgres backend in a long query) has not noticed.
        for pid in self._other_holders():
            logger.warning("embedded.process_killed: killing process %s, left by the server of %s", pid, self.path)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return self._gone_within(_KILL_PATIENCE)

    def _signal(self, number: signal.Signals) -> bool:
        """Whether there was a main process to send it to."""
        pid = self.pid()
        if pid is None:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        return True

    def _record(self) -> list[str]:
        return os.pread(self._lock.descriptor, 4096, 0).decode(errors="replace").splitlines(keepends=True)

    def _recorded_pid(self) -> int | None:
        lines = self._record()
        if len(lines) < (2 if _start_time(_lines(_PROC / "self" / "stat")) else 1) or not lines[-1].endswith("\n"):
            return None
        return int(lines[0])

    def _other_holders(self) -> list[int]:
        """Processes that hold the server's lock: those that only look have the file open too, but no lock on it."""
        found = []
        for process in _entries(_PROC):
            if not process.name.isdigit() or process.name == str(os.getpid()):
                continue
            for entry in _entries(process / "fd"):
                if self._same_file(entry) and _is_locked(process / "fdinfo" / entry.name):
                    found.append(int(process.name))
                    break
        return found

    def _same_file(self, entry: Path) -> bool:
        try:
            return os.path.samestat(entry.stat(), os.fstat(self._lock.descriptor))
        except OSError:
            return False

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY)
        return True


def _start_time(stat_lines: Sequence[str]) -> str | None:
    """When the process of this `/proc/PID/stat` started, in ticks since boot: its 22nd field, the 20th after the name."""
    fields = stat_lines[0].rpartition(")")[2].split() if stat_lines else []
    return fields[19] if len(fields) > 19 else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_locked(information: Path) -> bool:
    """Whether Linux's description of an open file names an exclusive lock held through it."""
    return any(" FLOCK " in line and " WRITE " in line for line in _lines(information))

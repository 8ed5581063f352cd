"""The process lines of the Procfile: started, and looked up among the processes of this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM

import psutil

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STARTED = ("beat", "scanner", "worker", "retry", "alone", "maintenance")
"""Every line that takes part in a delivery."""
STOPS_WITHIN = 60.0
"""Seconds, above the grace, for a line that was told to stop."""


def procfile() -> dict[str, str]:
    lines = (line.partition(":") for line in (ROOT / "Procfile").read_text().splitlines() if line.strip())
    return {name.strip(): command.strip() for name, _, command in lines}


class Line:
    """One line. Its parent restarts its children; who kills the parent starts the line again."""

    def __init__(self, name: str, environ: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.lock = threading.Lock()
        """Held by whoever ends the parent, until the line is started again."""
        self._command = procfile()[name]
        self._environ = environ
        self._log = log.open("ab")
        self._seen: dict[int, psutil.Process] = {}
        self._start()

    def start(self) -> None:
        """Start it again. To be called with the lock held, once its parent has ended."""
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            env=self._environ,
            cwd=ROOT,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._remember(psutil.Process(self._process.pid))

    def parent(self) -> psutil.Process | None:
        return self._seen.get(self._process.pid) if self._process.poll() is None else None

    def children(self) -> list[psutil.Process]:
        """The living Celery processes of the present parent, oldest first."""
        parent = self.parent()
        found: list[psutil.Process] = []
        if parent is not None:
            with suppress(psutil.NoSuchProcess):
                found = [each for each in parent.children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]
        for each in found:
            self._remember(each)
        return sorted(found, key=lambda each: (each.create_time(), each.pid))

    def _remember(self, process: psutil.Process) -> None:
        with suppress(psutil.NoSuchProcess):
            process.create_time()
            self._seen[process.pid] = process

    def wait(self) -> int:
        return self._process.wait(STOPS_WITHIN)

    def restart_if_ended(self) -> int | None:
        """A parent that ended although nobody ended it is started again; gives its exit code."""
        if not self.lock.acquire(blocking=False):
            return None
        try:
            code = self._process.poll()
            if code is not None:
                self._start()
            return code
        finally:
            self.lock.release()

    def stop(self) -> None:
        """End it as a platform does, and then whatever of it is left, orphans of dead parents included."""
        self.children()
        for process in self._seen.values():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(SIGCONT)
        if self._process.poll() is None:
            self._process.send_signal(SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOPS_WITHIN)
        for process in self._seen.values():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(SIGKILL)
        wait_for_ends(list(self._seen.values()), 10.0)
        self._log.close()


def wait_for_ends(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Return when none of them lives, or after `seconds`.

    Not `psutil.wait_procs`: it raises for a process that somebody else reaps at that instant.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(_lives, processes)):
        time.sleep(0.05)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

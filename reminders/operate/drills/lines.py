"""One process line of a drill's installation: started, stopped in a gap, killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reminders.operate.drills.drill import Broken
from reminders.process_lines import beat_child, worker_children
from reminders.settings import Settings
from reminders.supervised import LIFELINE, own_command

QUEUES = {"scanner": "scan", "worker": "deliver", "alone": "alone", "retry": "retry", "maintenance": "maintenance"}
"""The queue of each line; the names are those of the Procfile. `beat` is a line too."""
GAP_PATIENCE = 40.0
"""Seconds for a process to start and reach its gap."""
_LOG_TAIL = 2000


class Lifeline:
    """The pipe by which lines notice that the drill is gone, however it ended."""

    def __init__(self) -> None:
        self.reading_end, self._writing_end = os.pipe()

    def close(self) -> None:
        os.close(self._writing_end)
        os.close(self.reading_end)


class Line:
    """A running process line, its output in `log`. Its signals come from here alone: it has a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        lifeline: Lifeline,
        grace: float,
        *,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.log = log
        self._grace = grace
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                argv,
                env={**environ, LIFELINE: f"{lifeline.reading_end} {grace}"},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[lifeline.reading_end, *pass_fds],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as `kill -9` does, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def ended(self, seconds: float) -> bool:
        """Whether it is gone within so long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL:]


class StoppedLine(Line):
    """A line whose threads stay in a gap; see `reminders.drill_process`."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        lifeline: Lifeline,
        grace: float,
        *,
        gap: str,
        threads: int,
    ) -> None:
        self._gap = gap
        self._reached, told = os.pipe()
        place = argv.index("reminders.supervised")
        stopped = [*argv[:place], "reminders.drill_process", gap, str(threads), str(told), *argv[place + 1 :]]
        try:
            super().__init__(stopped, environ, log, lifeline, grace, pass_fds=(told,))
        finally:
            os.close(told)

    def await_gap(self) -> None:
        """Return once it is in its gap. Raises `Broken` if it does not get there."""
        readable, _, _ = select.select([self._reached], [], [], GAP_PATIENCE)
        if not readable or not os.read(self._reached, 1):
            raise Broken(f"the process that was to be killed did not come to its gap ({self._gap})")

    def kill(self) -> None:
        super().kill()
        if self._reached >= 0:
            os.close(self._reached)
            self._reached = -1


def line_command(name: str, settings: Settings, *, number: int, concurrency: int | None) -> Sequence[str]:
    """The Celery process of a line, without its supervising parent; `number` tells apart several of one name."""
    if name == "beat":
        return beat_child(settings).argv
    # Each of several children has a node name of its own.
    return worker_children(settings, [QUEUES[name]], number, concurrency, "INFO")[number - 1].argv


def supervised_command(name: str) -> Sequence[str]:
    """The line as the Procfile has it: a parent that starts its Celery processes again when they end."""
    if name == "beat":
        return [sys.executable, "-m", "reminders.supervise", "beat"]
    return own_command("worker", QUEUES[name])

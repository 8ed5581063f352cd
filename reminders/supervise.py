"""A small parent for Celery processes: starts them, starts them again, stops them in bounded time.

Celery's own processes need one: a worker can die when Redis restarts under it, and a warm stop of a thread pool waits
without bound. `supervise` runs in the main thread of a process of its own.

How the children are tied to the parent:

- Each child is in a process group of its own, so a terminal's Ctrl-C reaches the parent alone; the parent passes every
  signal on as SIGTERM. A platform that signals all processes at once makes that two SIGTERMs, of which a worker hears
  the first alone (`reminders.signalled`). (A second SIGINT would be a cold stop.)
- Each child holds the reading end of a pipe whose writing end only the parent has. When the parent is killed the pipe
  ends, and the child stops itself the same way: warm, then hard after the grace. That works on every Unix; Linux's
  PR_SET_PDEATHSIG does not, and would allow no warm stop.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from types import FrameType, TracebackType
from typing import IO, Self

from reminders.domain.errors import RemindersError
from reminders.log_lines import LINE, before_set_up, set_up_log
from reminders.settings import load
from reminders.supervised import LIFELINE

logger = logging.getLogger("reminders.supervise")  # also where it is run as `__main__`

FIRST_DELAY = 0.5
LONGEST_DELAY = 10.0
"""Seconds before a child that ended is started again; doubled from the first to the longest."""
SETTLED_AFTER = 30.0
"""Seconds of life after which the next delay is the first one again."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


Output = Callable[[str, str], None]
"""Takes a child's name and a line that it printed."""


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep running. `environ` is added to the parent's."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


def supervise(
    children: Sequence[Child], grace: float, output: Output | None = None, *, first: Child | None = None
) -> int:
    """Keep `children` running until a stop signal; return the exit code, 0.

    `first` runs before them: when it exits with 0 they are started; any other code is returned, and none is.

    Children get SIGTERM then, and SIGKILL once `grace` seconds have passed. Needs the main thread. What children print
    goes where this process prints or, line by line, to `output`, which is called from several threads.
    """
    with _Signals() as signals, _Lifeline() as lifeline:
        if first is not None:
            code = _run(_Slot(first, grace, lifeline, output), grace, signals)
            if code != 0:
                return code
        slots = [_Slot(child, grace, lifeline, output) for child in children]
        while not signals.stop:
            for slot in slots:
                slot.tend()
            signals.wait(min(slot.due_in() for slot in slots))
        logger.info("supervise.stopping: Stopping; at most %.0f s", grace)
        _stop(slots, grace, signals)
    return 0


def _run(slot: _Slot, grace: float, signals: _Signals) -> int:
    """Run one child until it exits, and return its code; 0 after a stop signal. One that is killed is started again."""
    while not signals.stop:
        code = slot.exit_code()
        if code is not None and code >= 0:
            slot.reap()
            return code
        slot.tend()
        signals.wait(slot.due_in())
    _stop([slot], grace, signals)
    return 0


def _stop(slots: Sequence[_Slot], grace: float, signals: _Signals) -> None:
    deadline = monotonic() + grace
    for slot in slots:
        slot.send(signal.SIGTERM)
    while any(slot.alive() for slot in slots) and monotonic() < deadline:
        signals.wait(deadline - monotonic())
    for slot in slots:
        if slot.alive():
            # Crash here: whatever it had claimed stays `sending`; the scan repairs it at the claim's end.
            logger.warning("supervise.killed: %s did not stop within %.0f s; killing it", slot.child.name, grace)
            slot.send(signal.SIGKILL)
    for slot in slots:
        slot.reap()


class _Slot:
    """One child's place: the process that fills it now, and when the next may."""

    def __init__(self, child: Child, grace: float, lifeline: _Lifeline, output: Output | None) -> None:
        self.child = child
        self._grace = grace
        self._lifeline = lifeline
        self._output = output
        self._reader: Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._start_at = 0.0
        self._delay = FIRST_DELAY

    def tend(self) -> None:
        """Note that the process ended; start the next when it is time."""
        if self._process is not None and self._process.poll() is not None:
            self._note_end(_how(self._process.returncode))
            self._process = None
        if self._process is None and monotonic() >= self._start_at:
            self._start()

    def due_in(self) -> float:
        """Seconds until `tend` has something to do that no signal announces."""
        return 60.0 if self._process is not None else max(0.0, self._start_at - monotonic())

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def exit_code(self) -> int | None:
        """Of the present process, as `subprocess` tells it: negative if it was killed; None while there is none."""
        return None if self._process is None else self._process.poll()

    def send(self, signum: int) -> None:
        if self._process is not None:
            self._process.send_signal(signum)

    def reap(self) -> None:
        if self._process is not None:
            self._process.wait()
        if self._reader is not None:
            self._reader.join(1.0)  # a grandchild may still hold the pipe

    def _start(self) -> None:
        environ = {**os.environ, LINE: self.child.name, **self.child.environ, **self._lifeline.environ(self._grace)}
        self._started = monotonic()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - argv is built by this package
                self.child.argv,
                stdin=subprocess.DEVNULL,
                stdout=None if self._output is None else subprocess.PIPE,
                stderr=None if self._output is None else subprocess.STDOUT,
                env=environ,
                pass_fds=(self._lifeline.reading_end,),
                process_group=0,
            )
        except OSError as error:  # no memory, no processes left
            self._note_end(f"could not be started ({error})")
            return
        if self._output is not None and self._process.stdout is not None:
            arguments = (self._process.stdout, self.child.name, self._output)
            self._reader = Thread(target=_pass_on, args=arguments, name=f"output of {self.child.name}", daemon=True)
            self._reader.start()
        logger.info("supervise.started: %s started as process %d", self.child.name, self._process.pid)

    def _note_end(self, how: str) -> None:
        if monotonic() - self._started >= SETTLED_AFTER:
            self._delay = FIRST_DELAY
        logger.warning("supervise.ended: %s %s; starting it again in %.1f s", self.child.name, how, self._delay)
        self._start_at = monotonic() + self._delay
        self._delay = min(2 * self._delay, LONGEST_DELAY)


def _pass_on(lines: IO[bytes], name: str, output: Output) -> None:
    with lines:
        for line in lines:
            output(name, line.decode(errors="replace").rstrip("\r\n"))


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class _Lifeline:
    """The pipe that ends when this process does."""

    def __enter__(self) -> Self:
        self.reading_end, self._writing_end = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._writing_end)
        os.close(self.reading_end)

    def environ(self, grace: float) -> dict[str, str]:
        """What a child needs to hold on to it; read by `reminders.supervised`."""
        return {LIFELINE: f"{self.reading_end} {grace}"}


class _Signals:
    """Turns stop signals and ended children into something to wait for."""

    def __init__(self) -> None:
        self.stop = False

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous = {signum: signal.signal(signum, self._on_stop) for signum in STOP_SIGNALS}
        self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _on_child)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float) -> None:
        """Return after a signal, or after `seconds`."""
        readable, _, _ = select.select([self._read], [], [], max(0.0, seconds))
        if readable:
            os.read(self._read, 4096)

    def _on_stop(self, _signum: int, _frame: FrameType | None) -> None:
        self.stop = True


def main(arguments: Sequence[str]) -> int:
    """`python -m reminders.supervise beat` or `flower`: the process lines that have no command of their own."""
    from reminders.process_lines import beat_child, flower_child, readiness_child  # noqa: PLC0415 - it builds on this module

    if list(arguments) not in (["beat"], ["flower"]):
        print("Usage: python -m reminders.supervise beat|flower", file=sys.stderr)  # noqa: T201
        return 2
    before_set_up(os.environ, f"{arguments[0]}-parent")
    try:
        settings = load()
        beat = arguments[0] == "beat"
        set_up_log(settings, f"{arguments[0]}-parent")
        child = beat_child(settings) if beat else flower_child(settings, os.environ)
    except RemindersError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return supervise([child], settings.grace, first=readiness_child(()) if beat else None)


def _on_child(_signum: int, _frame: FrameType | None) -> None:
    """A handler must exist for the wake-up byte to be written."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

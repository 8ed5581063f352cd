"""Doing what the plan says to a running installation, and undoing it when its time has passed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil
import redis

from benchmarks.chaos.lines import Line, wait_for_ends
from benchmarks.chaos.plan import Fault
from benchmarks.chaos.servers import SERVERS, Servers

LOOKED_FOR = 3.0
"""Seconds for which a victim that is just being started is waited for."""


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that happened. `at` is monotonic time."""

    fault: Fault
    at: float


@dataclass(slots=True)
class Freeze:
    """One process that was stopped, in Unix time. `until` is when it went on, or was killed."""

    pid: int
    what: str
    since: float
    until: float


class Strikes:
    """Each fault in a thread of its own. `trouble` is called with what went wrong in one of them."""

    def __init__(self, lines: Mapping[str, Line], servers: Servers, trouble: Callable[[str], None]) -> None:
        self._lines = lines
        self._servers = servers
        self._trouble = trouble
        self._threads: list[threading.Thread] = []
        self._calm = threading.Event()
        self._lock = threading.Lock()
        self._frozen: set[int] = set()
        self.done: list[Struck] = []
        self.missed: list[Fault] = []
        """Faults that found nobody: the victim was down already."""
        self.freezes: list[Freeze] = []

    def begin(self, fault: Fault) -> None:
        thread = threading.Thread(target=self._run, args=(fault,), name=fault.kind, daemon=True)
        self._threads.append(thread)
        thread.start()

    def kills(self) -> int:
        with self._lock:
            return sum(struck.fault.is_kill for struck in self.done)

    def undo_all(self) -> None:
        """Thaw what is frozen and start what is down, now; return when that is done."""
        self._calm.set()
        for thread in self._threads:
            thread.join()
        # Also one whose start has failed meanwhile.
        for name in SERVERS:
            self._servers.start(name)

    def _run(self, fault: Fault) -> None:
        try:
            happened = self._server(fault) if fault.target in SERVERS else self._line(fault)
        except Exception as error:  # noqa: BLE001 - the storm goes on; the report tells
            self._trouble(f"{fault.kind}: {type(error).__name__}: {error}")
            return
        if not happened:
            with self._lock:
                self.missed.append(fault)

    def _note(self, fault: Fault) -> None:
        with self._lock:
            self.done.append(Struck(fault, time.monotonic()))

    # -- servers

    def _server(self, fault: Fault) -> bool:
        lock = self._servers.locks[fault.target]
        if not lock.acquire(timeout=LOOKED_FOR):
            return False
        try:
            return self._strike_server(fault)
        finally:
            lock.release()

    def _strike_server(self, fault: Fault) -> bool:
        if fault.act == "flush":
            self._note(fault)
            with suppress(redis.exceptions.RedisError):
                self._servers.flush()
                return True
            return False
        processes = self._servers.processes(fault.target)
        if not processes:
            return False
        match fault.act:
            case "kill backend":
                others = processes[1:]
                if not others:
                    return False
                self._note(fault)
                others[int(fault.pick * len(others))].kill()
            case "kill server" | "lose data":
                self._note(fault)
                processes[0].kill()
                wait_for_ends(processes[:1], 10.0)
                if fault.act == "lose data":
                    self._servers.forget_redis()
                self._calm.wait(fault.seconds)
                self._servers.start(fault.target)
            case _:
                self._freeze(fault, processes)
        return True

    # -- lines

    def _line(self, fault: Fault) -> bool:
        line = self._lines[fault.target]
        match fault.act:
            case "kill child":
                return self._on_child(fault, line, lambda victim: self._kill(fault, [victim]))
            case "freeze child" | "freeze child long":
                return self._on_child(fault, line, lambda victim: self._freeze(fault, [victim]))
            case "freeze parent long":
                parent = line.parent()
                if parent is None:
                    return False
                self._freeze(fault, [parent])
                return True
            case _:
                return self._end_line(fault, line)

    def _on_child(self, fault: Fault, line: Line, act: Callable[[psutil.Process], None]) -> bool:
        end = time.monotonic() + LOOKED_FOR
        while time.monotonic() < end:
            children = line.children()
            if children:
                act(children[int(fault.pick * len(children))])
                return True
            self._calm.wait(0.1)
        return False

    def _end_line(self, fault: Fault, line: Line) -> bool:
        if not line.lock.acquire(timeout=LOOKED_FOR):
            return False
        try:
            parent = line.parent()
            if parent is None:
                return False
            match fault.act:
                case "kill parent":
                    self._kill(fault, [parent])
                case "kill all":
                    self._kill(fault, [parent, *line.children()])
                case _:
                    self._note(fault)
                    parent.terminate()
            line.wait()
            self._calm.wait(fault.seconds)
            line.start()
            return True
        finally:
            line.lock.release()

    # -- processes

    def _kill(self, fault: Fault, victims: Sequence[psutil.Process]) -> None:
        self._note(fault)
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()

    def _freeze(self, fault: Fault, victims: Sequence[psutil.Process]) -> None:
        with self._lock:
            victims = [each for each in victims if each.pid not in self._frozen]
            self._frozen.update(each.pid for each in victims)
        if not victims:
            return
        self._note(fault)
        began = time.time()
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.suspend()
        self._wait_frozen(fault.seconds, victims)
        with self._lock:
            ended = time.time()
            self.freezes.extend(Freeze(each.pid, fault.kind, began, ended) for each in victims)
            self._frozen.difference_update(each.pid for each in victims)
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.resume()

    def _wait_frozen(self, seconds: float, victims: Sequence[psutil.Process]) -> None:
        """Until the time has passed, all is to be calm, or the first of them is dead."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._calm.wait(0.2):
            if not victims[0].is_running() or victims[0].status() == psutil.STATUS_ZOMBIE:
                return

"""A process of the machine's: real code in a thread that runs only while the machine lets it, up to its next pause."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

PATIENCE = 120.0
"""Seconds after which a puppet that neither pauses nor ends is taken to hang."""


class Killed(BaseException):
    """kill -9, as far as a thread can have it: no `except Exception` sees it."""


class Puppet:
    """Runs `work(self)`. At each `pause` it stands still until it is resumed or killed, where it would pass on if
    it is told to run `through`."""

    def __init__(self, work: Callable[[Puppet], Any]) -> None:
        self._work = work
        self._orders: SimpleQueue[str] = SimpleQueue()
        self._reports: SimpleQueue[str] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._through = False
        self.at = "start"
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def over(self) -> bool:
        return self.at in {"end", "killed"}

    def resume(self, *, through: bool = False) -> str:
        """Let it run to its next pause, or `through` to its end, and return where it stands."""
        self._through = through
        if self.at == "start":
            self._thread.start()
        else:
            self._orders.put("go")
        return self._await()

    def kill(self) -> None:
        if self.at == "start":
            self.at = "killed"
        if not self.over:
            self._orders.put("die")
            self._await()

    def pause(self, where: str, *, always: bool = False) -> None:
        """Called by the work. `always`: also when running through, since somebody else must act first."""
        if self._through and not always:
            return
        self._reports.put(where)
        if self._orders.get() == "die":
            raise Killed

    def _await(self) -> str:
        self.at = self._reports.get(timeout=PATIENCE)
        return self.at

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except Killed:
            self._reports.put("killed")
            return
        except BaseException as error:  # noqa: BLE001 - handed to the machine
            self.error = error
        self._reports.put("end")

"""What the two servers have in common: adopt one that lives, else start it; wait until it answers; stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import ClassVar

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded.lifeline import Lifeline
from reminders.embedded.placement import owner_of
from reminders.embedded.programs import server_environment

_LOOK_EVERY = 0.02
_SILENCE = 10.0
"""Seconds a server that was found alive may leave unanswered before it counts as hung."""
_FIRST_SILENCE = 30.0
"""The same for one that was just started."""
_RECOVERY = 120.0
"""Seconds a server may take to read its data back after a crash."""
_LOG_LIMIT = 16 * 1024 * 1024
_LOG_TAIL = 16 * 1024


class Answer(Enum):
    """What a server said when it was asked whether it works."""

    READY = "ready"
    STARTING = "starting"
    REFUSED = "refused"
    SILENT = "silent"


class Server(ABC):
    """One server of one home folder. To be used only while the home's startup lock is held."""

    title: ClassVar[str]
    variable: ClassVar[str]
    """The environment variable that makes this server unnecessary."""
    endings: ClassVar[Sequence[tuple[signal.Signals, float]]]
    """Signals that end it, the gentle one first, each with the seconds it gets."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lifeline = Lifeline(home / f"{self.title.lower()}.lock")

    @abstractmethod
    def ask(self) -> Answer:
        """Ask the recorded server whether it works, with our password."""

    @abstractmethod
    def url(self) -> str:
        """How to reach it, as last recorded."""

    @abstractmethod
    def folder(self) -> Path:
        """Where its data lies, created if it is missing."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it works. Raises `ServiceUnavailable`."""

    def ensure(self) -> str:
        """The URL of the adopted or started server. Raises `ServiceUnavailable`."""
        try:
            if self._lifeline.alive() and self.wait(_SILENCE) is not Answer.READY:
                self.stop()
            if not self._lifeline.alive():
                self._refuse_a_server_without_lifeline()
                self.start()
            return self.url()
        except (OSError, LookupError, subprocess.SubprocessError) as error:
            raise ServiceUnavailable(
                f"{self.variable} is not set, and the embedded {self.title} under {self.home} cannot be started: {error}.\n"
                f"Set REMINDERS_HOME to a folder you own, or {self.variable} to a {self.title} of your own."
            ) from error

    def _refuse_a_server_without_lifeline(self) -> None:
        """Two servers on the same data would destroy it."""
        if self.ask() in {Answer.READY, Answer.STARTING}:
            raise ServiceUnavailable(
                f"The embedded {self.title} of {self.home} runs, but somebody removed its lock file.\n"
                f"End its processes by hand, then try again, or set {self.variable}."
            )

    def stop(self) -> None:
        """End it and wait until its last process is gone. Raises `ServiceUnavailable` if one stays."""
        if self._lifeline.alive() and not self._lifeline.end(self.endings):
            raise ServiceUnavailable(
                f"The embedded {self.title} of {self.home} does not end.\n"
                f"End the processes that have {self._lifeline.path} open, or set {self.variable}."
            )

    def close(self) -> None:
        self._lifeline.close()

    def wait(self, silence: float = _FIRST_SILENCE) -> Answer:
        """Ask until it works, refuses, its main process is dead, it has been silent for `silence` seconds or starting for two minutes."""
        silent_until = time.monotonic() + silence
        starting_until = time.monotonic() + _RECOVERY
        while True:
            if not self._lifeline.alive():
                return Answer.SILENT
            answer = self.ask()
            if answer in {Answer.READY, Answer.REFUSED} or self._lifeline.pid() is None:
                return answer
            now = time.monotonic()
            if now > (starting_until if answer is Answer.STARTING else silent_until):
                return answer
            time.sleep(_LOOK_EVERY)

    def launch(self, command: Sequence[str]) -> int:
        """Start the program in its folder; gives the size the log had before."""
        folder = self.folder()
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.old"))
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(log).st_size
            self._lifeline.launch(
                command, folder=folder, log=log, account=owner_of(folder), environment=server_environment()
            )
        finally:
            os.close(log)
        return size

    @property
    def log(self) -> Path:
        return self.folder() / "server.log"

    def did_not_start(self, log_start: int) -> ServiceUnavailable:
        """The error that shows what the server wrote last, after `log_start` bytes of its log."""
        return ServiceUnavailable(
            f"The embedded {self.title} did not start: {last_words(self.log, log_start)}\n"
            f"See {self.log}, or set {self.variable} to a {self.title} of your own."
        )


def last_words(log: Path, start: int) -> str:
    """The last line of the log after `start` bytes, or the last fatal one: Postgres says goodbye after it."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - _LOG_TAIL))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
    return (fatal or lines or ["it wrote nothing"])[-1]

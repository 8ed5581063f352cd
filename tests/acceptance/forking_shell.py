"""Runs `reminders` commands, each in a process of its own, forked from one that has imported them all.

Importing takes most of a short command's time. Beyond that a command is as from a shell: its own folder, environment,
arguments, output and status.

    python forking_shell.py < requests > statuses

A request is a line of JSON: {"argv": [...], "cwd": "...", "environ": {...}, "stdout": FILE, "stderr": FILE}.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 110
"""Seconds that a command may take; then it is ended by SIGALRM, and its status is negative."""


class ForkingShell:
    """The caller's end."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        self._environ, self._folder = environ, folder
        self._server = subprocess.Popen(
            [sys.executable, __file__], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        out, err = self._folder / "stdout", self._folder / "stderr"
        request = {
            "argv": argv, "cwd": str(self._folder), "environ": self._environ, "stdout": str(out), "stderr": str(err),
        }  # fmt: skip
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(argv, status, out.read_text(), err.read_text())


def _become(request: dict[str, Any]) -> None:
    """Turn this forked process into the command, as the console script would."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv = request["argv"]
    signal.alarm(PATIENCE)
    sys.exit(import_module("reminders.cli.app").main())


def _serve() -> None:
    for target, _ in import_module("reminders.cli.app").COMMANDS.values():
        import_module(target.partition(":")[0])
    # A child that ends looks through all objects that it may collect, and copies their pages by doing so: a third of a second.
    gc.freeze()
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()

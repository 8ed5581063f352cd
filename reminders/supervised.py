"""What a supervised Celery process runs: the `celery` command, tied to its parent (see `reminders.supervise`)."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import MutableMapping
from threading import Event, Thread
from types import ModuleType
from typing import Any

from reminders.log_lines import before_set_up

LIFELINE = "REMINDERS_X_LIFELINE"
"""Names the descriptor that ends with the parent, and the seconds of grace."""


_TIED = "import os; from reminders.supervised import hold_on; hold_on(os.environ); from reminders.cli.app import main; main()"


def own_command(*arguments: str) -> list[str]:
    """The `reminders` command of this very installation; it stops when the process that `LIFELINE` ties it to is gone."""
    return [sys.executable, "-c", _TIED, *arguments]


def main() -> None:
    """Run `celery` with this process's arguments."""
    hold_on(os.environ)
    before_set_up(os.environ, "celery")
    sys.argv[0] = "celery"
    # Celery warns root because it could unpickle messages; we accept JSON only.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    # And of a choice that the options make on purpose.
    warnings.filterwarnings("ignore", message=r"\s*In Celery 5\.1 we introduced an optional breaking change")
    if "flower" not in sys.argv:
        _leave_out_commands_of_others()
    from celery.__main__ import main as celery  # noqa: PLC0415 - the lifeline comes first, Celery's import takes a while

    celery()


def _leave_out_commands_of_others() -> None:
    """Celery imports whatever adds commands to its own: of Flower a web server, 12 MB and 0.2 s, in every worker.

    And for the interactive shell of one of its commands, that nobody asks for here, a terminal's toolkit of 6 MB.
    """
    from importlib import metadata  # noqa: PLC0415 - the parents need this module's name of the lifeline only

    every = metadata.entry_points

    def own(**chosen: str) -> Any:
        return metadata.EntryPoints() if chosen.get("group") == "celery.commands" else every(**chosen)

    metadata.entry_points = own  # type: ignore[assignment]
    shell = ModuleType("click_repl")
    shell.register_repl = lambda *_, **__: None  # type: ignore[attr-defined]
    sys.modules.setdefault(shell.__name__, shell)


def hold_on(environ: MutableMapping[str, str]) -> None:
    """Stop this process when its parent is gone: SIGTERM to itself, and after the grace the hard end."""
    text = environ.pop(LIFELINE, "")
    if text:
        descriptor, grace = text.split()
        os.set_inheritable(int(descriptor), False)
        Thread(target=_wait_for_end, args=(int(descriptor), float(grace)), name="lifeline", daemon=True).start()


def _wait_for_end(descriptor: int, grace: float) -> None:
    os.read(descriptor, 1)  # nobody writes: it returns when the writing end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    Event().wait(grace)
    os._exit(1)


if __name__ == "__main__":
    main()

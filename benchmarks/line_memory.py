"""What each process line of the Procfile takes, with the defaults, after it has delivered: the figures of docs/deploy.md.

    python benchmarks/line_memory.py [--reminders 2000] [--form "four processes"]

Twice: as resident sets, in which what is shared counts for each process, and as proportional ones, in which it is divided
among all that run on this machine. A dyno's own count lies between the two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from acceptance import harness
from acceptance.harness import Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver

LINES = ("web", "beat", "scanner", "worker", "retry", "alone", "maintenance")
PROCFILE = {**harness.procfile(), "dyno": "exec reminders up --small --no-web"}
FORMS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "a line each": (LINES, {}),
    "one dyno": (("dyno",), {}),
    "four processes": (("beat", "scanner", "worker"), {"REMINDERS_PROCESSES": "4"}),
}


def memory(stack: Stack) -> dict[str, tuple[float, float]]:
    found = {}
    for name, line in stack.lines.items():
        resident = proportional = 0
        for process in [psutil.Process(line._process.pid), *line.children()]:  # noqa: SLF001 - the parent, which no method gives
            with suppress(psutil.Error):
                sizes = process.memory_full_info()
                resident, proportional = resident + sizes.rss, proportional + sizes.pss
        found[name] = (resident / 2**20, proportional / 2**20)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reminders", type=int, default=2000)
    parser.add_argument("--form", choices=FORMS, action="append", help="one of the forms alone, or several")
    given = parser.parse_args()
    count = given.reminders
    harness.procfile = lambda: PROCFILE
    for form, (lines, environ) in FORMS.items():
        if given.form and form not in given.form:
            continue
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o711)
            receiver = ScriptedReceiver()
            with installation(Path(folder) / "home", PORT="0", **environ) as stack:
                stack.start(*lines)
                stack.schedule(receiver.url, [f"r{number}" for number in range(count)])
                stack.wait_all("delivered", count, 300)
                found = wait_until(lambda stack=stack: memory(stack), 10, "they are measured")
                print(f"{form}: resident and proportional, MB")
                for name, (resident, proportional) in found.items():
                    print(f"  {name:12} {resident:6.0f} {proportional:6.0f}")
            receiver.close()


if __name__ == "__main__":
    main()

"""What each process line of the Procfile takes, with the defaults, after it has delivered: the figures of docs/deploy.md.

    python -m benchmarks.line_memory [--reminders 2000] [--form "four processes"]... [--json FILE] [--quick]

Twice: as resident sets, in which what is shared counts for each process, and as proportional ones, in which it is divided
among all that run on this machine. A dyno's own count lies between the two.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import arguments, hand_over, tell

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


MB = 2**20


def memory(stack: Stack) -> list[dict[str, Any]]:
    found = []
    for name, line in stack.lines.items():
        sizes = []
        for process in [psutil.Process(line._process.pid), *line.children()]:  # noqa: SLF001 - the parent, which no method gives
            with suppress(psutil.Error):
                sizes.append(process.memory_full_info())
        parent, *processes = sizes
        found.append(
            {
                "line": name, "parent MB": round(parent.rss / MB), "its processes MB": [round(each.rss / MB) for each in processes],
                "resident MB": round(sum(each.rss for each in sizes) / MB), "proportional MB": round(sum(each.pss for each in sizes) / MB),
            }
        )  # fmt: skip
    return found


def measured(form: str, lines: tuple[str, ...], environ: dict[str, str], count: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        receiver = ScriptedReceiver()
        try:
            with installation(Path(folder) / "home", PORT="0", **environ) as stack:
                stack.start(*lines)
                stack.schedule(receiver.url, [f"r{number}" for number in range(count)])
                stack.wait_all("delivered", count, 300)
                found = [
                    {"installation": form, **row} for row in wait_until(lambda: memory(stack), 10, "they are measured")
                ]
        finally:
            receiver.close()
    for row in found:
        tell(row)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--reminders", type=int, default=2000)
    parser.add_argument("--form", choices=FORMS, action="append", help="one of the forms alone, or several")
    given = parser.parse_args()
    count = 50 if given.quick else given.reminders
    chosen = ["a line each"] if given.quick else given.form or list(FORMS)
    harness.procfile = lambda: PROCFILE
    rows = [row for form in chosen for row in measured(form, *FORMS[form], count)]
    hand_over("line_memory", rows, f"After {count:,} deliveries with the shipped settings.", given.json)


if __name__ == "__main__":
    main()

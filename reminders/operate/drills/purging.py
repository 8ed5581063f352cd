"""What has long ended is purged, and then its old file comes again."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

from reminders.celery_options import PURGE_TASK
from reminders.operate.drills.drill import Drill
from reminders.operate.drills.later import later
from reminders.operate.drills.lines import StoppedLine
from reminders.operate.drills.scene import KIND, USER, told
from reminders.operate.drills.stack import TENANT, Stack
from reminders.operate.retention import FIRST_SIZE, purge

LEFT = 20
"""Reminders that the second step of a pass finds; the first takes `FIRST_SIZE`."""
NUMBER = FIRST_SIZE + LEFT
REFERENCES = [f"order-{number}" for number in range(NUMBER)]
DONE_WITH_REJECTS = 3
"""Exit code of an import."""


def purge_replay(stack: Stack) -> None:
    """A file is imported and delivered, a purge is killed in mid-pass and finished, and the file is imported again."""
    due_at = datetime.now(UTC).isoformat()
    file = _write(stack.folder / "reminders.csv", stack.receiver.url, due_at, amount=1)
    maintenance = stack.start_stopping("maintenance", "half-purged")
    stack.start("scanner", "worker")
    stack.tick()
    imported = _import(stack, file)
    stack.check("G1", imported == (NUMBER, 0, 0), f"a file is imported: {_totals(imported)}")
    stack.take_over(REFERENCES)
    stack.ended({"delivered": NUMBER})
    _purge(stack, maintenance)

    moved_on = ("--now", later(stack.settings).isoformat(), "--overdue", "send")
    again = _import(stack, file, *moved_on)
    stack.check("G1", again == (0, NUMBER, 0), f"the same file again: {_totals(again)} (must be {NUMBER} existing)")
    other = _write(stack.folder / "other.csv", stack.receiver.url, due_at, amount=2)
    changed = _import(stack, other, *moved_on, exits=DONE_WITH_REJECTS)
    stack.check("G1", changed == (0, 0, NUMBER), f"other content under the same references: {_totals(changed)}")
    conflicts = [line for line in _rejects(other) if "was purged" in line]
    stack.check("G1", len(conflicts) == NUMBER, f"rejected as conflicts with what was purged: {len(conflicts)}")

    # Anything that those files had scheduled would be due before it.
    stack.schedule(["last"])
    stack.ended({"delivered": 1})
    found = stack.find(REFERENCES)
    stack.check("G1", not found, f"reminders of the file in the ledger: {len(found)} (must be 0)")
    stack.check_called_once_each(stack.made)


def _purge(stack: Stack, maintenance: StoppedLine) -> None:
    """Two passes; the second is killed after its first step."""
    days = stack.settings.retention / 86400
    marked = purge(stack.database, stack.settings.retention, now=later(stack.settings))
    stack.did(f"ran a purge as if {days:g} days had passed: {marked.marked} marked, {marked.purged} deleted")
    stack.check("G4", stack.counts() == {"delivered": NUMBER}, "what is only marked is all there")
    stack.send(PURGE_TASK)
    maintenance.await_gap()
    maintenance.kill()
    stack.did("killed the maintenance worker with -9 between the first step of its purge and the second")
    seen = stack.counts()
    stack.check(
        "G4", seen == {"delivered": LEFT}, f"its first step is committed, its second was not begun: left {told(seen)}"
    )
    rest = purge(stack.database, stack.settings.retention, now=later(stack.settings))
    stack.did(f"ran it again: {rest.purged} deleted")
    left = stack.counts()
    stack.check("G4", (rest.purged, left) == (LEFT, {}), f"left in the ledger: {told(left)}")


def _write(file: Path, to: str, due_at: str, *, amount: int) -> Path:
    with file.open("w", newline="", encoding="ascii") as out:
        rows = csv.writer(out)
        rows.writerow(("tenant_id", "user_id", "kind", "channel", "destination", "due_at", "reference", "data"))
        data = json.dumps({"amount": amount})
        rows.writerows((TENANT, USER, KIND, "webhook", to, due_at, reference, data) for reference in REFERENCES)
    return file


def _import(stack: Stack, file: Path, *options: str, exits: int = 0) -> tuple[int, int, int]:
    """How many were scheduled, existed, were rejected."""
    told = json.loads(stack.command("import", str(file), *options, "--json", exits=exits))
    return told["scheduled"], told["existing"], told["rejected"]


def _totals(imported: tuple[int, int, int]) -> str:
    return "{} scheduled, {} existing, {} rejected".format(*imported)


def _rejects(file: Path) -> list[str]:
    return file.with_name(f"{file.name}.rejects.jsonl").read_text().splitlines()


DRILLS = (
    Drill(
        "purge-replay",
        "a purge is killed in mid-pass and finished; then an old import is replayed",
        ("G1", "G2", "G4"),
        purge_replay,
    ),
)

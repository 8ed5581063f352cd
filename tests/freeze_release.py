"""Keep the statements of the pipeline as they are at a commit: `python tests/freeze_release.py COMMIT`, in a clone with its history."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHERE = ROOT / "tests" / "data" / "previous_release"
NAMES = (
    "schedule", "schedule_existing", "look", "lease", "mark_published", "take_back", "shorten_lease", "claim", "claimed_with",
    "refusal", "finalize_delivered", "finalize_parked", "finalize_waiting", "finalize_buried", "finalize_cancelled", "finalize_alone",
    "release_not_called", "record_late", "lock_lapsed", "repair_repeat", "repair_bury", "end_without_call", "record_tick", "cancel",
)  # fmt: skip
DUMP = """
import importlib, json, pkgutil, reminders.ledger
from reminders.ledger.statement import Statement
found = {}
for module in pkgutil.iter_modules(reminders.ledger.__path__, "reminders.ledger."):
    for value in vars(importlib.import_module(module.name)).values():
        if isinstance(value, Statement):
            found[value.name] = (value.sql, dict(value.types))
print(json.dumps(found))
"""


def main(commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        done = subprocess.run(
            [sys.executable, "-c", DUMP], cwd=folder, env={"PYTHONPATH": folder}, capture_output=True, check=True
        )
    found = json.loads(done.stdout)
    for file in WHERE.glob("*.sql"):
        file.unlink()
    for name in NAMES:
        if name in found:
            sql, types = found[name]
            (WHERE / f"{name}.sql").write_text(f"-- {name} at {commit}\n-- {json.dumps(types)}\n{sql.strip()}\n")
    print(f"{len(list(WHERE.glob('*.sql')))} statements; not there: {sorted(set(NAMES) - set(found)) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1])

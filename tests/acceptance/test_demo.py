"""The demo ends well on a laptop without settings: it counts what was to happen, and says so."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from acceptance.harness import BIN


def test_the_demo_shows_what_it_promises(home: Path, tmp_path: Path) -> None:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("REMINDERS_") and name not in {"DATABASE_URL", "REDIS_URL", "PORT"}
    }
    done = subprocess.run(
        [f"{BIN}/reminders", "demo"], cwd=tmp_path, env={**environ, "REMINDERS_HOME": str(home)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(re.findall(r"│ *(\S.*?) +│ +(\S+) .*│", done.stdout))
    assert [table[name] for name in ("delivered", "of them retried", "dead, for review", "cancelled")] == [
        "93",
        "1",
        "1",
        "1",
    ]
    assert [table[name] for name in ("repeats it saw", "mails caught", "SMS caught")] == ["0", "1", "1"]

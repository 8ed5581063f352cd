"""The demo ends well on a laptop without settings: it counts what was to happen, and says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from acceptance.harness import BIN, unset


@pytest.mark.timeout(300)  # it starts a dozen processes, one after the other
def test_the_demo_shows_what_it_promises(home: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [f"{BIN}/reminders", "demo"], cwd=tmp_path, env={**unset(), "REMINDERS_HOME": str(home)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(re.findall(r"│ *(\S.*?) +│ +(\S+) .*│", done.stdout))
    promised = {"delivered": "93", "of them retried": "1", "dead, for review": "1", "cancelled": "1",
                "repeats it saw": "0", "mails caught": "1", "SMS caught": "1"}  # fmt: skip
    assert {name: table.get(name) for name in promised} == promised

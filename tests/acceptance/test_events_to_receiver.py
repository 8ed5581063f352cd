"""480 real events in 23 zones, imported from a file, reach `reminders receiver` exactly once each."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path

import pytest

from acceptance.harness import BIN, ROOT, installation, wait_until

DATA = ROOT / "tests" / "data"
AFTER_THE_LAST = "2026-12-31T00:00:00Z"


@pytest.mark.timeout(150)
def test_every_event_arrives_exactly_once(home: Path, tmp_path: Path) -> None:
    with installation(home) as stack:
        # Port 0 gives the receiver an address of its own; the file names the default one.
        receiver = subprocess.Popen(
            [f"{BIN}/reminders", "receiver", "--port", "0", "--json"], env=stack.environ, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert receiver.stderr is not None
        assert receiver.stdout is not None
        url = re.search(r"http://\S+/hook", receiver.stderr.readline())
        assert url is not None
        events = tmp_path / "events.csv"
        events.write_text((DATA / "events.csv").read_text().replace("http://127.0.0.1:8780/hook", url[0]))
        command = ("import", str(events), "--overdue", "send", "--now", AFTER_THE_LAST, "--json")
        assert json.loads(stack.cli(*command).stdout)["scheduled"] == 480
        again = json.loads(stack.cli(*command).stdout)
        assert (again["scheduled"], again["existing"], again["rejected"]) == (0, 480, 0)

        stack.start("worker", "alone")
        # The clock of the ledger is the database's; only a scan by hand may be told another.
        done = wait_until(lambda: _scan_all(stack) and stack.counts() == {"delivered": 480}, 90, "all are delivered")
        assert done
        receiver.terminate()
        lines = [json.loads(line) for line in receiver.communicate(timeout=60)[0].splitlines()]
    with (DATA / "events_expected.csv").open() as file:
        expected = {(row["user_id"], row["reference"]): row["due_at_utc"] for row in csv.DictReader(file)}
    got = {(line["user_id"], line["reference"]): line["due_at"] for line in lines}
    assert len(lines) == 480, "one call each"
    assert all(line["effect"] and line["status"] == 200 for line in lines)
    assert got == expected


def _scan_all(stack: object) -> bool:
    stack.cli("scan", "--now", AFTER_THE_LAST)  # type: ignore[attr-defined]
    return True

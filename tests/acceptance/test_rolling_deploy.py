"""A rolling deploy under load: old and new lines at once, then the old ones are stopped, while work goes on.

The old ones are the release before (tests/data/previous_release names its commit), where this clone's history has it;
otherwise this release once more.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from acceptance.harness import ROOT, Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver

OLD = "old-"
LINES = ("beat", "scanner", "worker", "retry", "alone", "maintenance")
SMALL = {
    "REMINDERS_PROCESSES": "1",
    "REMINDERS_CONCURRENCY": "4",
    "REMINDERS_HTTP_DEADLINE": "5s",
    "REMINDERS_CLAIM": "12s",
}


@pytest.fixture
def release_before(tmp_path: Path) -> Path:
    """Where its package is."""
    first = next(iter((ROOT / "tests" / "data" / "previous_release").glob("*.sql"))).read_text().partition("\n")[0]
    found = re.fullmatch(r"-- \w+ at ([0-9a-f]{7,40})", first)
    assert found is not None
    archive = subprocess.run(["git", "archive", found[1]], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        return ROOT
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive.stdout, check=True)
    return tmp_path


class Load:
    """Schedules a few reminders at a time, due at once, until it is told to stop."""

    def __init__(self, stack: Stack, url: str) -> None:
        self.keys: list[str] = []
        self._stack = stack
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for turn in count():
            made = self._stack.schedule(self._url, [f"load-{turn}-{each}" for each in range(5)])
            self.keys += [each.delivery_key for each in made]
            if self._stop.wait(0.1):
                return

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    with installation(home, **SMALL) as stack:
        yield stack


def began(receiver: ScriptedReceiver, more: int) -> None:
    calls = receiver.calls.total()
    receiver.wait_for(lambda r: r.calls.total() >= calls + more, 60, f"{more} more calls")


@pytest.mark.timeout(240)
def test_a_rolling_deploy_under_load_loses_and_repeats_nothing(
    stack: Stack, receiver: ScriptedReceiver, release_before: Path
) -> None:
    # The folder that a process starts in would otherwise go before it.
    old = {"PYTHONPATH": str(release_before), "PYTHONSAFEPATH": "1"}
    told = subprocess.run(
        [sys.executable, "-c", "import reminders; print(reminders.__file__)"], env={**stack.environ, **old}, cwd=ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(told.stdout).is_relative_to(release_before)
    stack.start(*LINES, side=OLD, **old)
    load = Load(stack, receiver.url)
    began(receiver, 50)
    said = "SELECT count(DISTINCT worker) FROM delivery_attempts"
    assert stack.query(said) == [(1,)]

    stack.start(*LINES)
    wait_until(lambda: stack.query(said) == [(2,)], 60, "both releases deliver")
    began(receiver, 100)
    for line in LINES:
        assert stack.lines.pop(f"{OLD}{line}").stop() == 0
        began(receiver, 10)
    load.stop()

    stack.wait_all("delivered", len(load.keys), 60)
    assert set(receiver.calls) == set(load.keys)
    assert set(receiver.calls.values()) == {1}
    assert stack.query("SELECT count(*) FROM delivery_attempts WHERE outcome <> 'delivered'") == [(0,)]
    assert {line for line in LINES if "Traceback" in stack.log(f"{OLD}{line}") + stack.log(line)} == set()

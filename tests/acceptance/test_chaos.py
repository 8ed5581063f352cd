"""A small chaos run, as `make chaos` makes a large one: nothing is lost, overlapping, repeated or sent against a word given."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from acceptance.harness import ROOT


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_small_chaos_run_breaks_nothing(tmp_path):
    sizes = ["--reminders", "300", "--kills", "15", "--seed", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.chaos", *sizes, "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["breaches"].values()) == {0}
    assert report["kills"] == 15
    assert report["calls"] > 200

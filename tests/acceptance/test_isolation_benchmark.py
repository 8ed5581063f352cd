"""The benchmark of isolation works: each scene, small, ends with figures. Whether they keep the bound is not asked here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.harness import ROOT, unset

SMALL = {
    "tenants": 40, "spread": 2, "burst": 400, "paused": 200, "warm": 5, "rate": 20, "seconds": 5, "others": 200, "rounds": 1,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", ["burst", "hanging", "paused", "capped"])
def test_a_small_scene_ends_with_figures(tmp_path: Path, scene: str) -> None:
    file = tmp_path / "figures.json"
    sizes = [part for name, size in SMALL.items() for part in (f"--{name}", str(size))]
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.isolation", "--scene", scene, "--json", str(file), *sizes],
        cwd=ROOT, env={**unset(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert told.returncode in {0, 1}, told.stderr
    figures = json.loads(file.read_text())["scenes"][scene]
    if scene == "capped":
        assert figures["called_per_second"] <= SMALL["rate"] * 1.2
    else:
        assert figures["fresh"] == SMALL["tenants"]
        assert figures["max"] < 60
    if scene == "paused":
        assert figures["called_of_the_paused"] == 0

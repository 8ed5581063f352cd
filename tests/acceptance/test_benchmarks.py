"""`python -m benchmarks` works: run tiny, each benchmark puts tables with the columns of docs/performance.md on a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.harness import ROOT, unset
from benchmarks import page
from benchmarks.__main__ import BENCHMARKS

PAGE = ROOT / "docs" / "performance.md"
SMOKE = "schedule_many"
"""The one that takes seconds."""


def heads(file: Path, name: str) -> list[str]:
    tables = page.section(file, name).split("\n\n")[:-1]
    return [table.partition("\n")[0] for table in tables]


def runs(folder: Path, name: str) -> None:
    file = folder / "page.md"
    file.write_text(PAGE.read_text())
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", name, "--quick", "--out", str(folder), "--page", str(file)],
        cwd=ROOT, env={**unset(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    words = folder / f"{name}.1.txt"
    assert told.returncode == 0, told.stdout + told.stderr + (words.read_text() if words.exists() else "")
    assert json.loads((folder / f"{name}.1.json").read_text())["benchmark"] == name
    assert heads(file, name)
    assert heads(PAGE, name) in ([], heads(file, name)), "it has none while that is not measured"
    others = [each.name for each in BENCHMARKS if each.name != name]
    assert [page.section(file, each) for each in others] == [page.section(PAGE, each) for each in others]


def test_the_quickest_puts_its_table_on_the_page(tmp_path: Path) -> None:
    runs(tmp_path, SMOKE)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [each.name for each in BENCHMARKS if each.name != SMOKE])
def test_each_puts_its_tables_on_the_page(tmp_path: Path, name: str) -> None:
    runs(tmp_path, name)

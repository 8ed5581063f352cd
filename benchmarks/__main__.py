"""Runs the benchmarks and writes their tables into docs/performance.md.

    python -m benchmarks [--only NAME]... [--quick] [--runs N] [--out DIR] [--page FILE]

Each is a program of its own, `python -m benchmarks.NAME --json FILE`, with servers of its own in a temporary folder. All of them
take about fifty minutes on two idle cores, and up to 15 GB of disk. What each prints, and its figures as JSON, are kept in DIR. With
`--quick` everything is tiny: it shows that the command works, and measures nothing, so give it a page of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine, page

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One of them: the module that runs it, and how it is told to be tiny."""

    name: str
    quick: tuple[str, ...] = ("--quick",)
    runs: int = 1


BENCHMARKS = (
    Benchmark("drain", ("--count", "200")),
    Benchmark("scan"),
    Benchmark("lateness"),
    Benchmark("import_rate"),
    Benchmark("schedule_many", runs=3),
    Benchmark("redrive_many", runs=3),
    Benchmark("purge_million"),
    Benchmark("growth"),
    Benchmark("line_memory"),
)


def run(benchmark: Benchmark, out: Path, number: int, *, quick: bool) -> dict[str, Any]:
    """Run it once; what it hands over. Raises `CalledProcessError`; its words are in DIR."""
    file = out / f"{benchmark.name}.{number}.json"
    command = [sys.executable, "-m", f"benchmarks.{benchmark.name}", "--json", str(file)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with (out / f"{benchmark.name}.{number}.txt").open("w") as words:
        subprocess.run(
            [*command, *(benchmark.quick if quick else ())], env={**os.environ, "PYTHONPATH": path}, cwd=ROOT,
            stdout=words, stderr=subprocess.STDOUT, check=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[each.name for each in BENCHMARKS], help="all unless given")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--runs", type=int, help="of each; otherwise as many as each needs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks", help="where figures and words go")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md", help="where the tables go")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for benchmark in BENCHMARKS:
        if given.only and benchmark.name not in given.only:
            continue
        print(f"{benchmark.name} ...", flush=True)
        when, where = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), machine.told()
        runs = given.runs or (1 if given.quick else benchmark.runs)
        try:
            found = [run(benchmark, given.out, number, quick=given.quick) for number in range(1, runs + 1)]
        except subprocess.CalledProcessError as error:
            print(f"  failed with code {error.returncode}; see {given.out}/{benchmark.name}.*.txt", flush=True)
            failed += 1
            continue
        measured = page.Measured([each["rows"] for each in found], when, where, found[-1].get("settings", ""))
        page.write(given.page, benchmark.name, measured)
        print(page.told(measured), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

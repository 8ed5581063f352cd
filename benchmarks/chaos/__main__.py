"""The command: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.chaos import report
from benchmarks.chaos.run import Given, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--reminders", type=int, default=20_000, help="how many at least")
    parser.add_argument("--kills", type=int, default=500, help="the faults end after so many kills")
    parser.add_argument("--pace", type=float, default=1.2, help="mean of seconds between two faults")
    parser.add_argument("--seed", type=int, default=1, help="of the faults, the answers and the traffic")
    parser.add_argument(
        "--trouble", type=float, default=0.2, help="share of first calls that the receiver treats badly"
    )
    parser.add_argument("--calm", type=float, default=600.0, help="seconds to come to an end after the last fault")
    parser.add_argument("--out", type=Path, help="folder for the report, the logs and all notes")
    options = vars(parser.parse_args())
    out: Path = options.pop("out") or Path(tempfile.mkdtemp(prefix="chaos-"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "calls.jsonl").unlink(missing_ok=True)
    told = run(Given(**options), out, _tell)
    (out / "report.json").write_text(json.dumps(told, indent=1) + "\n")
    text = report.table(told)
    (out / "report.txt").write_text(text + "\n")
    print(text)
    print(f"\nreport, logs and notes: {out}")
    return 1 if report.failed(told) else 0


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

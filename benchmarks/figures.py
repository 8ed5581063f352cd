"""What a benchmark hands over: rows of figures, as JSON, and how they are told in a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A benchmark's own command line, with what `python -m benchmarks` gives each of them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    return parser


def hand_over(name: str, rows: Sequence[Row], settings: str, file: Path | None) -> None:
    """Write `rows` to `file`, if one is given. `settings` says in one line with what sizes and settings they were measured."""
    if file is not None:
        file.write_text(json.dumps({"benchmark": name, "settings": settings, "rows": rows}, indent=1) + "\n")


def tell(row: Row) -> None:
    """Print a row as soon as it is known: a benchmark takes minutes."""
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of `values` lie; they need not be sorted. Of none, not a number."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))] if ranked else float("nan")

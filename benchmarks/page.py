"""The page of figures, docs/performance.md: what `python -m benchmarks` writes between a benchmark's markers."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Row

NOT_MEASURED = "Not measured yet."


@dataclass(frozen=True, slots=True)
class Measured:
    """One benchmark's figures: of each run its rows, with when, where and how they were measured."""

    runs: Sequence[Sequence[Row]]
    when: str
    machine: str
    settings: str


def write(page: Path, name: str, measured: Measured) -> None:
    """Put the tables of `name` between its markers. Raises `ValueError` where the page has none."""
    text = page.read_text()
    pattern = _section(name)
    if not pattern.search(text):
        raise ValueError(f"{page} has no markers of {name}: write `<!-- {name} -->` and `<!-- /{name} -->`")
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{told(measured)}\n{found[3]}", text))


def section(page: Path, name: str) -> str:
    """What stands between the markers of `name`. Raises `ValueError` where there are none."""
    found = _section(name).search(page.read_text())
    if found is None:
        raise ValueError(f"{page} has no markers of {name}")
    return found[2].strip()


def _section(name: str) -> re.Pattern[str]:
    marker = re.escape(name)
    return re.compile(rf"(<!-- {marker} -->)(.*?)(<!-- /{marker} -->)", re.DOTALL)


def told(measured: Measured) -> str:
    """One table for each sequence of rows with the same columns, and below them how they came about."""
    tables = ["\n".join(_table(rows)) for rows in _alike(merged(measured.runs))]
    runs = "one run" if len(measured.runs) == 1 else f"{len(measured.runs)} runs: median (least to most)"
    return "\n\n".join([*tables, f"*{measured.when}, {measured.machine}; {runs}. {measured.settings}*"])


def merged(runs: Sequence[Sequence[Row]]) -> list[dict[str, str]]:
    """Rows as they are shown. Figures that differ between runs become their median, with the least and the most."""
    flat = [[_flat(row) for row in rows] for rows in runs]
    if len({len(rows) for rows in flat}) != 1:
        raise ValueError("the runs have different numbers of rows")
    found = []
    for same in zip(*flat, strict=True):
        if len({tuple(row) for row in same}) != 1:
            raise ValueError("the runs have different columns")
        found.append({column: _cell([row[column] for row in same]) for column in same[0]})
    return found


def _flat(row: Row, before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= _flat(value, f"{before}{name} ") if isinstance(value, dict) else {f"{before}{name}": value}
    return flat


def _cell(values: list[Any]) -> str:
    first = values[0]
    if all(each == first for each in values) or not all(_is_number(each) for each in values):
        return _text(first)
    return f"{_text(statistics.median(values))} ({_text(min(values))} to {_text(max(values))})"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "/")


def _alike(rows: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    tables: list[list[dict[str, str]]] = []
    for row in rows:
        if tables and list(tables[-1][-1]) == list(row):
            tables[-1].append(row)
        else:
            tables.append([row])
    return tables


def _table(rows: list[dict[str, str]]) -> list[str]:
    head = list(rows[0])
    lines = [[name.replace("_", " ") for name in head], ["---"] * len(head), *([*row.values()] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]

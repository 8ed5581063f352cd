"""docs/performance.md: what `python -m benchmarks` writes there, and that what stands there has that shape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.__main__ import BENCHMARKS, ROOT

PAGE = ROOT / "docs" / "performance.md"
UNDER = re.compile(
    r"\*\d{4}-\d\d-\d\d \d\d:\d\d UTC, \d+ cores .+; Python [\d.]+, Postgres [\d.]+, Redis [\d.]+, .+;"
    r" (one run|\d+ runs: median \(least to most\))\. .+\*"
)


def measured(*runs: list[dict[str, object]]) -> page.Measured:
    return page.Measured(runs, "2030-01-02 03:04 UTC", "2 cores (x), 8 GB; Python 3", "Settings.")


def test_rows_with_the_same_columns_are_one_table() -> None:
    told = page.told(measured([{"a_b": 1, "c": "x|y"}, {"a_b": 12345, "c": None}, {"other": True}]))
    assert told == (
        "| a b | c |\n| --- | --- |\n| 1 | x/y |\n| 12,345 |  |\n\n| other |\n| --- |\n| yes |\n\n"
        "*2030-01-02 03:04 UTC, 2 cores (x), 8 GB; Python 3; one run. Settings.*"
    )


def test_of_several_runs_the_median_is_told_with_the_least_and_the_most() -> None:
    runs = [[{"name": "n", "rate": rate, "cpu": {"worker": 0.5, "redis": rate / 1000}}] for rate in (1200, 900, 1100)]
    assert page.merged(runs) == [
        {"name": "n", "rate": "1,100 (900 to 1,200)", "cpu worker": "0.5", "cpu redis": "1.1 (0.9 to 1.2)"}
    ]


def test_runs_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers of rows"):
        page.merged([[{"a": 1}], []])
    with pytest.raises(ValueError, match="columns"):
        page.merged([[{"a": 1}], [{"b": 1}]])


def test_a_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- scan -->\nold\n<!-- /scan -->\nbetween\n<!-- growth -->\nstays\n<!-- /growth -->\n")
    page.write(file, "scan", measured([{"a": r"\1"}]))
    assert file.read_text().startswith("before\n<!-- scan -->\n| a |\n| --- |\n| \\1 |\n")
    assert file.read_text().endswith("\n<!-- /scan -->\nbetween\n<!-- growth -->\nstays\n<!-- /growth -->\n")
    with pytest.raises(ValueError, match="no markers of drain"):
        page.write(file, "drain", measured([{"a": 1}]))


def test_every_benchmark_has_its_section_in_the_order_in_which_they_run() -> None:
    assert re.findall(r"<!-- (\w+) -->", PAGE.read_text()) == [each.name for each in BENCHMARKS]


@pytest.mark.parametrize("name", [each.name for each in BENCHMARKS])
def test_what_stands_on_the_page_has_the_shape_that_the_command_writes(name: str) -> None:
    told = page.section(PAGE, name)
    if told == page.NOT_MEASURED:
        pytest.skip(told)
    *tables, under = told.split("\n\n")
    assert tables, "no figures"
    for table in tables:
        head, rule, *rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in table.splitlines()]
        assert rule == ["---"] * len(head)
        assert rows
        assert {len(row) for row in rows} == {len(head)}
    assert UNDER.fullmatch(under)

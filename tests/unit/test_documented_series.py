"""The page on series shows what the engine computes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from reminders.pipeline import plan
from reminders.pipeline.series_request import recurrence_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "series.md").read_text()
TABLE = PAGE.split("<!-- instants -->")[1].split("<!-- /instants -->")[0]
ROWS = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in TABLE.strip().splitlines()[2:]]


def test_the_table_is_there():
    assert len(ROWS) >= 12


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_the_page_shows_the_instants_that_the_engine_gives(row):
    rule, start, zone, instants, _ = row
    shown = [datetime.strptime(each, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC) for each in instants.split(", ")]
    found = recurrence_of(datetime.fromisoformat(start), zone, rule.strip("`"), (), ()).all()
    whole = "COUNT" in rule or "UNTIL" in rule
    assert [each.at for each in islice(found, None if whole else len(shown))] == shown


def test_the_numbers_are_those_of_the_code():
    assert f"none, if later than {plan.GRACE / 60:g} minutes" in PAGE
    assert plan.LATENESS_WHEN_SKIPPING == 3600
    assert "an hour unless said otherwise" in PAGE
    assert (plan.MOST_CAUGHT_UP, plan.MOST_SKIPS) == (100, 1000)


def test_every_test_the_page_names_exists():
    tests = Path(__file__).resolve().parents[1]
    defined = {name for file in tests.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) >= 6
    assert named - defined == set()

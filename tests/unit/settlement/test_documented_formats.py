"""What the page on formats shows is what is read."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from reminders.domain.money import amount
from reminders.domain.settlement import DECISIONS
from reminders.intake.settlement.config import MAX_AGE, Rule, load_config
from reminders.intake.settlement.cutting import LARGEST_PAGE, PAGE_RECORDS
from reminders.intake.settlement.line_reading import FIELDS, LONGEST_ID
from reminders.intake.settlement.mapping import mapping_format

PAGE = (Path(__file__).parents[3] / "docs/reconciliation-formats.md").read_text(encoding="utf-8")
MAPPING, CONFIG = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def _table_under(heading):
    section = PAGE.split(heading)[1].split("\n## ")[0].split("\n### ")[0]
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row.startswith("| ")
    ]


def test_the_mapping_shown_is_one(tmp_path):
    path = tmp_path / "till.toml"
    path.write_text(MAPPING, encoding="utf-8")
    form = mapping_format(path)
    assert (form.name, form.delimiter, form.encoding, form.values.decimal_separator) == ("till", ";", "cp1252", ",")
    assert form.values.digits == {"ISK": 2}


def test_the_configuration_shown_is_one(tmp_path):
    path = tmp_path / "reconcile.toml"
    path.write_text(CONFIG, encoding="utf-8")
    found = load_config(path)
    assert (found.source, found.grace, found.max_age) == ("stripe", timedelta(days=3), MAX_AGE)
    assert set(found.rules) == {"settled", "unknown_order"}
    shown = {name for rule in found.rules.values() for name in (f.name for f in fields(Rule)) if getattr(rule, name)}
    assert shown == {each.name for each in fields(Rule)}


def test_each_decision_and_each_field_is_there():
    names = {name for row in _table_under("## Decisions") for name in re.findall(r"`(\w+)`", row[0])}
    assert names == set(DECISIONS)
    for name in FIELDS:
        assert re.search(rf"\b{name}\b", PAGE.split("## Configuration")[0]), name


def test_the_numbers_are_the_ones_in_force():
    assert f"{PAGE_RECORDS:,} records" in PAGE
    assert f"{LARGEST_PAGE >> 20} MiB" in PAGE
    assert f"more than {LONGEST_ID} characters" in PAGE


@pytest.mark.parametrize(
    ("text", "currency", "said"),
    [
        (text, currency if currency != "any" else "EUR", said)
        for texts, currencies, said in _table_under("### Amounts")[1:]
        for number, text in enumerate(re.findall(r"`([^`]+)`", texts))
        for currency in [currencies.split(", ")[min(number, currencies.count(","))]]
    ],
)
def test_amounts_are_read_or_refused_as_shown(text, currency, said):
    if said.startswith("read"):
        assert amount(text, currency) is not None
    else:
        assert said.startswith("refused")
        with pytest.raises(ValueError, match=r"\w"):
            amount(text, currency)

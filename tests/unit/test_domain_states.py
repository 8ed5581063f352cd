"""The transition tables are sound, and the page about the guarantees shows them and names only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from reminders.domain.states import (
    DELIVERY_TRANSITIONS,
    LIVE,
    REMINDER_TRANSITIONS,
    TERMINAL,
    DeliveryStatus,
    ReminderStatus,
    Transition,
)
from reminders.ledger.migrations import upgrade_script

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
TABLES = {"reminders": REMINDER_TRANSITIONS, "deliveries": DELIVERY_TRANSITIONS}


def rendered(transitions: tuple[Transition, ...]) -> str:
    rows = ["| from | to | guard | who |", "|---|---|---|---|"]
    rows += [f"| {each.before or '(new)'} | {each.after} | {each.guard} | {each.who} |" for each in transitions]
    return "\n".join(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_table_as_it_is(name):
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", PAGE, re.DOTALL)
    assert match is not None
    assert match[1] == rendered(TABLES[name])


def test_every_test_the_page_names_exists():
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 60
    assert named - defined == set()


def test_every_guarantee_and_every_row_of_the_crash_table_names_a_test():
    for number in range(1, 13):
        (row,) = re.findall(rf"^\| G{number} \|.*$", PAGE, re.MULTILINE)
        assert "`test_" in row
    crashes = PAGE.split("## After a kill -9")[1].split("\n## ")[0]
    rows = [line for line in crashes.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 9
    assert [row for row in rows if "`test_" not in row] == []


@pytest.mark.parametrize("name", TABLES)
def test_no_move_is_listed_twice(name):
    moves = [(each.before, each.after) for each in TABLES[name]]
    assert len(moves) == len(set(moves))


def test_the_words_are_those_of_the_types_and_of_the_tables_checks():
    reminders, deliveries = set(get_args(ReminderStatus)), set(get_args(DeliveryStatus))
    assert reminders == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    for transitions, words in ((REMINDER_TRANSITIONS, reminders), (DELIVERY_TRANSITIONS, deliveries)):
        assert {each.after for each in transitions} | {each.before for each in transitions} - {None} <= words
    checks = [
        set(re.findall(r"'(\w+)'", check)) for check in re.findall(r"CHECK \(status IN \(([^)]*)", upgrade_script("s"))
    ]
    in_deliveries = max(checks, key=lambda check: "superseded" in check)
    assert in_deliveries <= deliveries
    in_ledger = next(check for check in checks if "live" in check) - {"live"}
    in_due = max((check for check in checks if "leased" in check), key=len)
    assert in_ledger == TERMINAL
    assert in_due == LIVE


def test_every_state_that_can_be_entered_can_be_left_or_is_an_end():
    left = {each.before for each in REMINDER_TRANSITIONS}
    entered = {each.after for each in REMINDER_TRANSITIONS}
    assert entered - left == {"delivered"}
    assert {each.before for each in DELIVERY_TRANSITIONS} - {None} <= {each.after for each in DELIVERY_TRANSITIONS}


def test_nothing_leads_out_of_delivered_and_only_people_or_a_late_success_out_of_the_other_ends():
    outs = [each for each in REMINDER_TRANSITIONS if each.before in TERMINAL]
    assert not [each for each in outs if each.before == "delivered"]
    word = "(cancel|reschedule|shadow release|redrive|discard|resolve|series: revive)"
    people = re.compile(rf"{word}(; {word})*")
    others = [each for each in outs if not people.fullmatch(each.who)]
    assert {(each.before, each.after) for each in others} == {("dead", "delivered")}
    assert all("success came late" in each.guard for each in others)

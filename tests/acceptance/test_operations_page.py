"""The operations page is true: its commands, run on an installation in trouble, say what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acceptance.operations_page import PAGE, fixed, for_page, shown
from acceptance.operations_scene import CAPPED, FAILING, HANGING, OF_GREEN, PAUSED, answers, planted
from reminders.cli.late import by_verdict

QUESTIONS = (
    "What is late?", "Why?", "Who is affected?", "Is it us or them?", "Is it growing?", "Stop it", "Stop only that tenant",
    "Drain slowly", "Redrive these", "Was this one sent, and with what proof?", "Can I roll back?", "Did anyone get two?",
)  # fmt: skip


def test_the_twelve_questions_each_have_a_command_and_its_output() -> None:
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    asked = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert [heading for heading in asked if heading[0].isdigit()] == [
        f"{number}. {question}" for number, question in enumerate(QUESTIONS, 1)
    ]
    for number, question in enumerate(QUESTIONS, 1):
        blocks = re.findall(
            r"<!-- run \S+ -->\n```text\n\$ reminders \S[^\n]*\n[^\n]+\n", asked[f"{number}. {question}"]
        )
        assert blocks, question


@pytest.mark.timeout(400)
def test_the_page_shows_what_the_commands_say(home: Path, tmp_path: Path) -> None:
    with planted(home, tmp_path) as scene:
        found = scene.late()
        said = answers(scene)
    doings = by_verdict(found)
    assert doings["us"] == OF_GREEN
    assert doings["them"] == HANGING + FAILING
    assert PAUSED < doings["wanted"] <= PAUSED + CAPPED
    page = shown()
    assert page.keys() == said.keys()
    assert {name: fixed(text) for name, text in page.items()} == {
        name: fixed(for_page(text)) for name, text in said.items()
    }


def test_what_differs_from_run_to_run_and_nothing_else_is_passed_over() -> None:
    text = "7 of 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b,  2.5 min late\nat 2026-11-30 03:00:00 UTC: paused"
    assert fixed(text) == "N of ID, N s late\nat TIME: paused"
    assert fixed(text) != fixed(text.replace("paused", "held"))

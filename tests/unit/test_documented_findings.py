"""docs/doctor.md lists every check as the code has it. `python tests/unit/test_documented_findings.py` writes the list."""

from __future__ import annotations

import re
from pathlib import Path

from reminders.operate.doctor.examine import CHECKS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
LIST = re.compile(r"(?<=<!-- findings -->\n).*(?=<!-- /findings -->)", re.DOTALL)


def listed() -> str:
    rows = ["| name | severity | must hold | to do |", "|---|---|---|---|"]
    for check in CHECKS:
        severity = f"{check.severity}, start" if check.at_start else check.severity
        rows.append(f"| `{check.name}` | {severity} | {_cell(check.meaning)} | {_cell(check.remedy)} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_lists_every_check_as_it_is() -> None:
    (found,) = LIST.findall(PAGE.read_text())
    assert found == listed()


def test_what_stops_a_process_is_fatal() -> None:
    assert {check.severity for check in CHECKS if check.at_start} == {"fatal"}


if __name__ == "__main__":
    PAGE.write_text(LIST.sub(lambda _: listed(), PAGE.read_text()))

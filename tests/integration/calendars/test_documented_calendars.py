"""docs/calendars.md: its commands run, and its options are those of the command."""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from acceptance.test_documented_commands import CALENDAR
from reminders.cli.app import reminders
from reminders.cli.import_calendar import calendar_options
from reminders.intake.ical import alarms, asking, components, content_lines

PAGE = Path(__file__).parents[3] / "docs" / "calendars.md"


@pytest.fixture
def folder(services, database, monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", services.database_url)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calendar.ics").write_text(CALENDAR)


def test_the_commands_of_the_page(folder):
    commands = re.findall(r"^\$ reminders (.*)$", PAGE.read_text(), re.MULTILINE)
    outputs = []
    for command in commands:
        result = CliRunner().invoke(reminders, shlex.split(command))
        assert result.exit_code == 0, result.output
        outputs.append(result.stdout)
    assert "1 reminder scheduled" in outputs[0]
    assert "dry run" in outputs[0]
    assert "1 reminder scheduled" in outputs[1]
    assert json.loads(outputs[2])["existing"] == 1


def test_the_options_of_the_page_are_those_of_the_command():
    def command():
        pass

    known = {option for each in calendar_options(command).__click_params__ for option in each.opts}
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `--")]
    assert set(re.findall(r"--[a-z-]+", " ".join(rows))) == known | {"--overdue"}


def test_the_bounds_of_the_page_are_those_of_the_code():
    text = " ".join(PAGE.read_text().split())
    assert f"{content_lines.MOST_BYTES >> 20} MB, {components.MOST_EVENTS:,} events" in text
    assert f"{asking.MOST_REMINDERS:,} reminders, {asking.MOST_SECONDS:g} seconds" in text
    assert f"lines of {content_lines.LONGEST >> 20} MB, components nested deeper than {components.DEEPEST}" in text
    assert f"further than {alarms.FURTHEST.days} days" in text
    assert f"up to {asking.LONGEST_TEXT:,} characters" in text
    assert f"up to {alarms.MOST_REPEATS} times" in text

"""What `reminders up` itself writes: in a platform's log neither a password of the operator's nor a line that is no JSON."""

from __future__ import annotations

import json
import logging

from reminders.cli.up import _announce, _Lines
from reminders.log_lines import formatter_of
from reminders.settings import Secret, Settings

SETTINGS = Settings(flower_auth=Secret("operator:theoperatorsownword"))


def test_the_operators_own_password_is_not_shown(capsys):
    _announce(SETTINGS, 5555, show_password=False)
    shown = capsys.readouterr().out
    assert "http://127.0.0.1:5555" in shown
    assert "theoperatorsownword" not in shown


def test_one_that_was_made_for_this_terminal_is(capsys):
    _announce(SETTINGS, 5555, show_password=True)
    assert "theoperatorsownword" in capsys.readouterr().out


def test_with_json_it_says_nothing_but_json(capsys):
    settings = Settings(flower_auth=SETTINGS.flower_auth, log="json")
    _announce(settings, 5555, show_password=True)
    assert capsys.readouterr().out == ""
    lines: list[str] = []
    handler = _Lines(lambda _, line: lines.append(line))
    handler.setFormatter(formatter_of(settings, "up"))
    handler.handle(
        logging.makeLogRecord({"name": "reminders.supervise", "msg": "supervise.started: %s", "args": ("beat",)})
    )
    assert json.loads(lines[0])["event"] == "supervise.started"

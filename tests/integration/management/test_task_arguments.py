"""What lacks an argument, or names one that there is not, is refused by every operators' task in words and in one line."""

from __future__ import annotations

import inspect
import logging

import pytest

from reminders.celery import app
from reminders.domain.errors import RemindersError
from reminders.operators_word import OperatorsTask

WORD = {"actor": "ada", "reason": "moving"}
NAMES = [
    "cancel", "redrive_dead_letters", "discard_dead_letters", "resolve_dead_letters", "pause", "resume", "drain", "rate_set",
    "rate_remove", "rate_list", "destination_disable", "destination_enable", "destination_release", "channel_release",
    "tenant_mode", "shadow_release", "handover", "notices_seen", "erase", "purge_older",
]  # fmt: skip


def needed(task):
    taken = inspect.signature(task.run).parameters.values()
    return [each.name for each in taken if each.kind is each.KEYWORD_ONLY and each.default is each.empty]


def test_all_of_them_are_asked(stage):
    app.loader.import_default_modules()
    found = {name.removeprefix("reminders.") for name, task in app.tasks.items() if isinstance(task, OperatorsTask)}
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_refused_by_the_name_of_the_argument(name, caplog, stage):
    task = app.tasks[f"reminders.{name}"]
    names = needed(task)
    cases = [({other: "x" for other in names if other != each}, each) for each in names]
    cases += [({}, names[0]), (dict.fromkeys(names, "x") | {"tenent": "x"}, "tenent")]
    for given, about in cases:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            ended = task.apply(kwargs=given)
        assert isinstance(ended.result, RemindersError)
        assert str(ended.result).startswith(f"{about}: ")
        (said,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert said.getMessage().startswith("task.refused about=")
        assert f": {about}: " in said.getMessage()
        assert said.exc_info is None


def test_what_is_not_named_is_refused_and_not_repeated(stage, caplog):
    ended = app.tasks["reminders.pause"].apply(args=("acme",), kwargs=WORD)
    assert "are given by name: actor, reason, everything" in str(ended.result)
    ended = app.tasks["reminders.cancel"].apply(kwargs={**WORD, "ids": [], "ada@example.com": 1})
    assert "ada@" not in str(ended.result)
    assert "ada@" not in caplog.text

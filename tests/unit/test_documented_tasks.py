"""docs/tasks.md lists the tasks that there are, with their arguments; each that an operator sends asks who and why."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()


def rows(name):
    (block,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGE, re.DOTALL)
    return {row[1].strip(" `"): row[2] for row in (line.split("|") for line in block.splitlines()[2:])}


BY_OPERATORS = rows("tasks")


LISTING = """
import inspect, json
from reminders.celery import app
app.loader.import_default_modules()
runs = {name: getattr(task, "_orig_run", task.run) for name, task in app.tasks.items() if name.startswith("reminders.")}
print(json.dumps({name: {each.name: each.kind.name for each in inspect.signature(run).parameters.values()} for name, run in runs.items()}))
"""


@pytest.fixture(scope="module")
def registered():
    # In a process of its own: the app reads its settings once, and other tests may have made tasks.
    environ = {**os.environ, "REDIS_URL": "redis://localhost:6390/0"}
    listed = subprocess.run([sys.executable, "-c", LISTING], env=environ, capture_output=True, check=True)
    return json.loads(listed.stdout)


def test_the_page_lists_the_tasks_that_there_are(registered):
    assert set(registered) == {*BY_OPERATORS, *rows("own")}


@pytest.mark.parametrize("name", BY_OPERATORS)
def test_it_names_the_arguments_and_each_task_asks_who_and_why(registered, name):
    taken = registered[name]
    assert {"actor", "reason"} <= set(taken)
    shown = BY_OPERATORS[name]
    named = {each for each, kind in taken.items() if kind != "VAR_KEYWORD"} - {"actor", "reason"}
    assert set(re.findall(r"`(\w+)`", shown)) == named
    assert any(word in shown for word in ("filters", "scope")) == any(each in taken for each in ("filters", "scope"))

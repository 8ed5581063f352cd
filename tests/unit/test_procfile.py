"""The process lines: every queue has a consumer, every beat entry a task, every line is one process."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reminders.celery_options import QUEUES, options
from reminders.cli.worker import worker
from reminders.domain.errors import InvalidInput
from reminders.process_lines import beat_child, flower_child, worker_children
from reminders.settings import Secret, Settings

PROCFILE = Path(__file__).parents[2] / "Procfile"
SETTINGS = Settings(redis_url=Secret("redis://localhost:6390/0"), flower_auth=Secret("operator:long-enough"))


def lines():
    return dict(line.split(": ", 1) for line in PROCFILE.read_text().splitlines())


def queues_of(command):
    """The queues of a worker line; none for another."""
    words = shlex.split(command)
    if words[:3] != ["exec", "reminders", "worker"]:
        return ()
    return worker.make_context("worker", words[3:]).params["queues"]


def option(child, name):
    return next(word.removeprefix(name + "=") for word in child.argv if word.startswith(name + "="))


def test_the_lines_are_the_ones_the_design_names():
    expected = {"release", "web", "beat", "scanner", "worker", "retry", "alone", "maintenance"}
    assert set(lines()) == expected


def test_every_line_replaces_its_shell():
    assert all(command.startswith("exec ") for command in lines().values())


def test_every_queue_is_consumed():
    consumed = [queue for command in lines().values() for queue in queues_of(command)]
    assert sorted(consumed) == sorted(QUEUES)


def test_every_worker_line_can_be_built():
    for command in lines().values():
        queues = queues_of(command)
        if queues:
            assert worker_children(SETTINGS, queues, None, None, "INFO")


def test_every_beat_entry_and_every_route_names_a_registered_task():
    # In a process of its own: the app reads its settings once.
    listing = "import json; from reminders.celery import app; app.loader.import_default_modules(); print(json.dumps(list(app.tasks)))"
    environ = {**os.environ, "REDIS_URL": "redis://localhost:6390/0"}
    listed = subprocess.run([sys.executable, "-c", listing], env=environ, capture_output=True, check=True)
    given = options(SETTINGS)
    named = {entry["task"] for entry in given["beat_schedule"].values()} | set(given["task_routes"])
    assert named
    assert named <= set(json.loads(listed.stdout))


@pytest.mark.parametrize(
    ("queue", "processes", "concurrency"),
    [("scan", 1, "1"), ("deliver", 3, "40"), ("retry", 1, "10"), ("alone", 1, "1"), ("maintenance", 1, "2")],
)
def test_default_sizes(queue, processes, concurrency):
    settings = Settings(redis_url=SETTINGS.redis_url, processes=3, concurrency=40)
    children = worker_children(settings, [queue], None, None, "INFO")
    assert len(children) == processes
    assert {option(child, "--concurrency") for child in children} == {concurrency}
    assert {option(child, "--queues") for child in children} == {queue}
    assert len({option(child, "--hostname") for child in children}) == processes


def test_sizes_can_be_given():
    children = worker_children(SETTINGS, ["deliver", "retry"], 2, 5, "INFO")
    assert [option(child, "--concurrency") for child in children] == ["5", "5"]
    assert option(children[0], "--queues") == "deliver,retry"


@pytest.mark.parametrize(
    ("queues", "concurrency"),
    [(["delivr"], None), (["scan", "deliver"], None), (["alone", "retry"], None), (["alone"], 2)],
)
def test_lines_that_break_what_queues_are_for_are_refused(queues, concurrency):
    with pytest.raises(InvalidInput):
        worker_children(SETTINGS, queues, None, concurrency, "INFO")


def test_flower_is_open_to_the_network_only_where_a_platform_sets_the_port():
    at_home = flower_child(SETTINGS, {})
    assert (option(at_home, "--address"), option(at_home, "--port")) == ("127.0.0.1", "5555")
    hosted = flower_child(SETTINGS, {"PORT": "8123"})
    assert (option(hosted, "--address"), option(hosted, "--port")) == ("0.0.0.0", "8123")
    assert int(option(hosted, "--max-tasks")) <= 5000
    assert not any("long-enough" in word for word in hosted.argv)


def test_no_child_shows_a_secret():
    secretive = Settings(redis_url=Secret("redis://:hidden-word@localhost:6390/0"), flower_auth=SETTINGS.flower_auth)
    children = [*worker_children(secretive, ["deliver"], None, None, "INFO"), beat_child(secretive)]
    assert not any("hidden-word" in word for child in [*children, flower_child(secretive, {})] for word in child.argv)

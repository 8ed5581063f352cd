"""Homes for one run, and what a run leaves that was killed."""

import tempfile

import pytest

from reminders.embedded import attach, running, throwaway_home
from reminders.embedded.services import end_unused

RUN = """
import json, sys, tempfile
tempfile.tempdir = sys.argv[1]
from reminders.embedded import running, throwaway_home
with throwaway_home("test") as home, running(home, postgres=False) as services:
    print(json.dumps([str(home), services.redis_url]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    with throwaway_home("test"):
        # Clears away what a failed test left.
        pass


def test_nothing_is_left_of_a_run(folder):
    with throwaway_home("test") as home, running(home, postgres=False):
        assert attach(home) is not None
    assert not home.parent.exists()


def test_the_next_run_ends_what_a_killed_one_left_and_leaves_a_live_one_alone(folder, user, probe):
    killed, living = user(folder, script=RUN), user(folder, script=RUN)
    (_, left), (_, used) = killed.urls(), living.urls()
    pid = int(probe.redis(left, "INFO", "server")["process_id"])
    killed.kill()
    assert probe.lives(pid)
    with throwaway_home("test") as home:
        assert not probe.lives(pid)
        assert probe.redis(used, "PING")
        runs = [run for run in home.parent.parent.iterdir() if run.is_dir()]
        assert len(runs) == 2
    living.leave()


def test_a_folder_that_somebody_else_may_write_is_not_used(folder):
    with throwaway_home("test") as home:
        ours = home.parent.parent
    ours.chmod(0o777)
    with throwaway_home("test") as home:
        assert home.parent.parent != ours


def test_servers_with_a_user_are_not_ended(home, probe):
    with running(home, postgres=False) as services:
        assert end_unused(home) is False
        assert probe.redis(services.redis_url, "PING")
    assert end_unused(home) is True

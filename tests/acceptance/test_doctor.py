"""The doctor on an installation that runs: silent where all is well, and a reminder of its own through the whole path."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acceptance.harness import ROOT, Stack, installation, wait_until

STRONG = "Zk3vQ8rT1nW6yB0eH5uJ9pL2xS7dF4gA"
LINES = ("scanner", "worker", "retry", "alone", "maintenance", "beat")
ENOUGH = "20s"
"""For a reminder to come to where it is to stall, on a busy machine too; and for its row to be held."""
TABLES = ("reminders", "due", "notification_deliveries", "delivery_attempts", "dead_letters", "destinations", "notices")


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    # As at home, where loopback may be called: the doctor's Postgres is the one of this home.
    with installation(
        home, REMINDERS_HOME=str(home), REMINDERS_WEBHOOK_SECRET=STRONG, REMINDERS_FLOWER_AUTH=f"operator:{STRONG}"
    ) as stack:
        stack.start(*LINES)
        yield stack


def doctor(stack: Stack, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = stack.cli("doctor", "--json", *arguments, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def names(told: dict[str, Any]) -> list[str]:
    """Of what was found, save that the tests run with another Python."""
    return [finding["name"] for finding in told["findings"] if finding["name"] != "python_untested"]


def nothing_left(stack: Stack) -> bool:
    return all(stack.query(f"SELECT count(*) FROM {table}") == [(0,)] for table in TABLES)


@contextmanager
def environment(stack: Stack, **changed: str) -> Iterator[None]:
    before = dict(stack.environ)
    stack.environ.update(changed)
    yield
    stack.environ.clear()
    stack.environ.update(before)


@pytest.mark.timeout(400)
def test_it_finds_nothing_wrong_sends_one_reminder_and_says_where_one_stalls(stack: Stack) -> None:
    wait_until(lambda: not names(doctor(stack, "--procfile", f"{ROOT}/Procfile")[1]), 60, "nothing is wrong", every=1.0)

    code, told = doctor(stack, "--synthetic", "--procfile", f"{ROOT}/Procfile")
    passage = told["synthetic"]
    assert (code, told["ok"], names(told), told["skipped"]) == (0, True, [], [])
    assert (passage["arrived"], passage["why"], passage["calls"], passage["effects"]) == (True, None, 2, 1)
    times = list(passage["stages"].values())
    assert list(passage["stages"]) == ["scheduled", "leased", "published", "claimed", "called", "retried", "delivered"]
    assert times == sorted(times)
    assert nothing_left(stack)

    # Everybody connected says how long it leaves a message alone.
    with environment(stack, REMINDERS_VISIBILITY="9m"):
        code, told = doctor(stack)
    assert (code, names(told)) == (3, ["visibility_differs"])
    assert "here 540 s; 600 s at 127.0.0.1:" in told["findings"][0]["found"]

    # The workers sign with another secret.
    with environment(stack, REMINDERS_WEBHOOK_SECRET=STRONG[::-1]):
        code, told = doctor(stack, "--synthetic", "--within", "40s")
    assert (code, told["synthetic"]["stalled_at"], told["synthetic"]["effects"]) == (1, "called", 0)
    assert "REMINDERS_WEBHOOK_SECRET" in told["synthetic"]["why"]

    # Nobody listens where they call.
    code, told = doctor(stack, "--synthetic", "--within", ENOUGH, "--to", "http://127.0.0.1:1/hook")
    assert (code, told["synthetic"]["stalled_at"]) == (1, "called")
    assert "connect_refused" in told["synthetic"]["why"]

    # It is held.
    stack.cli("pause", "--tenant", "reminders-doctor", "--reason", "a trial")
    code, told = doctor(stack, "--synthetic", "--within", ENOUGH)
    assert (code, told["synthetic"]["stalled_at"]) == (1, "leased")
    assert told["synthetic"]["why"] == "a pause holds it (a trial): `reminders pause list`"
    stack.cli("resume", "--tenant", "reminders-doctor")
    assert nothing_left(stack)

    # No worker takes its message.
    stack.stop("worker")
    wait_until(lambda: names(doctor(stack)[1]) == ["queue_unserved"], 60, "its absence is noticed", every=1.0)
    code, told = doctor(stack, "--synthetic", "--within", ENOUGH)
    assert (code, names(told), told["synthetic"]["stalled_at"]) == (1, ["queue_unserved"], "claimed")
    assert told["synthetic"]["why"] == "no live worker consumes queue deliver: start `reminders worker deliver`"
    wait_until(lambda: nothing_left(stack), 30, "it was cancelled and deleted")


def test_a_doctor_that_is_interrupted_takes_its_reminder_away(stack: Stack) -> None:
    command = ["reminders", "doctor", "--synthetic", "--to", "http://127.0.0.1:1/hook", "--within", "60s"]
    wait_until(lambda: "ready." in stack.log("scanner") and "ready." in stack.log("worker"), 60, "workers run")
    with subprocess.Popen(
        command, env=stack.environ, cwd=stack.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"claimed" in line:
                process.terminate()
                break
        process.communicate(timeout=60)
    wait_until(lambda: nothing_left(stack), 30, "it was cancelled and deleted")

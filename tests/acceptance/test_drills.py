"""Every drill holds, and checks the guarantees that it names; and the command ends, tells and tidies up as it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from acceptance.harness import BIN, unset, wait_until
from reminders.broker.gauge import RedisGauge
from reminders.operate.drills import ticks
from reminders.operate.drills.catalogue import DRILLS
from reminders.operate.drills.drill import Drill, Record
from reminders.operate.drills.scripted_receiver import ScriptedReceiver
from reminders.operate.drills.stack import Servers, rehearse, stage, throwaway_servers
from reminders.operate.drills.stack import Stack as DrillStack

LATE = 9.0
"""Seconds, three times the drill's own: what a look, a claim and a call may take on a busy machine; without the scan's holding of the minute it would be up to sixty."""


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks, "LATE", LATE)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with throwaway_servers() as found:
        yield found


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "drill",
    [pytest.param(drill, id=drill.name, marks=[pytest.mark.long] if drill.long else []) for drill in DRILLS.values()],
)
def test_a_drill_holds_and_checks_what_it_says(drill: Drill, servers: Servers) -> None:
    record = Record(drill, drill.settings)
    rehearse(drill, servers, record)
    logs = "\n".join(f"--- {name}\n{words}" for name, words in record.logs.items())
    assert record.broken is None, f"{record.broken}\n{logs}"
    assert {step.guarantee for step in record.steps if step.kind == "held"} == set(drill.guarantees)
    assert record.steps[-1].text.startswith("audit: no violation")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("partial-publish", 9.0),
        pytest.param("kill-after-claim", 15.0, marks=pytest.mark.long),
        pytest.param("kill-half-repaired", 15.0, marks=pytest.mark.long),
    ],
)
def test_a_drill_that_looks_late_finds_what_it_looks_for(
    name: str, seconds: float, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After what it did and waited for, leases and claims end, and idle scanners wake: as on a slow machine."""
    did, wait_for = DrillStack.did, ScriptedReceiver.wait_for

    def did_late(stack: DrillStack, text: str) -> None:
        did(stack, text)
        stack.pass_time(seconds)

    def wait_late(receiver: ScriptedReceiver, *wanted: Any) -> None:
        wait_for(receiver, *wanted)
        Event().wait(seconds)

    monkeypatch.setattr(DrillStack, "did", did_late)
    monkeypatch.setattr(ScriptedReceiver, "wait_for", wait_late)
    record = Record(DRILLS[name], DRILLS[name].settings)
    rehearse(DRILLS[name], servers, record)
    assert record.broken is None


def test_a_broken_drill_says_so_shows_the_logs_and_leaves_no_process(servers: Servers) -> None:
    running: list[psutil.Process] = []

    def broken(stack: DrillStack) -> None:
        running.extend(psutil.Process(line.pid) for line in stack.start("worker"))
        stack.start_supervised("scanner")
        wait_until(lambda: " ready." in stack.logs()["1-worker"], 60, "the worker is up")
        running.extend(psutil.Process().children(recursive=True))
        stack.check("G1", holds=False, text="something")

    record = Record(Drill("broken", "breaks", ("G1",), broken), {})
    rehearse(record.drill, servers, record)
    assert record.broken == "G1: not so: something"
    assert set(record.logs) == {"1-worker", "2-scanner"}
    assert len(running) >= 3
    assert not [process for process in running if process.is_running()]


@pytest.fixture
def shell(home: Path) -> dict[str, str]:
    """An environment whose throw-away folders are this test's own."""
    return {**unset(), "TMPDIR": str(home.parent), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def start_drill(shell: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["reminders", "drill", *arguments], env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.long
@pytest.mark.timeout(180)
def test_two_run_side_by_side(shell: dict[str, str]) -> None:
    both = [start_drill(shell, "kill-before-ack", "--json") for _ in range(2)]
    for drill in both:
        told, complaints = drill.communicate(timeout=100)
        assert drill.returncode == 0, told + complaints
        assert json.loads(told)["ok"] is True


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_nothing_stays_of_an_interrupted_drill(number: signal.Signals, shell: dict[str, str], home: Path) -> None:
    drill = start_drill(shell, "kill-in-call")
    assert drill.stdout is not None
    while "killed the worker" not in (line := drill.stdout.readline()):
        assert line, "it ended before it was interrupted"
    assert of_folder(home.parent), "its servers and processes run now"
    drill.send_signal(number)
    assert drill.wait(60) != 0
    if number == signal.SIGKILL:
        # Its processes end by themselves; its servers with the next drill's beginning.
        wait_until(
            lambda: not [process for process in of_folder(home.parent) if "celery" in command_of(process)],
            60,
            "its processes end",
        )
        assert start_drill(shell, "kill-before-ack").wait(100) == 0
    assert of_folder(home.parent) == []
    assert not list(home.parent.glob("reminders-drill-*/run-*"))


def of_folder(folder: Path) -> list[psutil.Process]:
    """Processes that work below `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


def command_of(process: psutil.Process) -> str:
    """Its command line; empty for one that has ended since it was found."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def served(stack: DrillStack) -> set[str]:
    """The queues that workers are known to consume."""
    gauge = RedisGauge(stack.settings)
    try:
        return {queue for worker in gauge.workers() or () for queue in worker.queues}
    finally:
        gauge.close()


@pytest.mark.timeout(120)
def test_on_an_installation_that_runs_only_what_the_drill_made_is_touched(servers: Servers) -> None:
    drill = DRILLS["same-message"]
    with stage(drill, servers, Record(drill, {})) as stack:
        stack.start("scanner", "worker")
        other = (
            "--tenant",
            "staging",
            "--user",
            "u",
            "--kind",
            "k",
            "--channel",
            "webhook",
            "--to",
            stack.receiver.url,
        )
        stack.command("schedule", *other, "--due-at", "+1h", "--reference", "somebody else's")
        # What the command asks: a worker may have written that it is ready, and not yet told the broker whom it serves.
        wait_until(lambda: {"scan", "deliver"} <= served(stack), 60, "both lines are up")
        here = ("--here", "--tenant", "staging", "--among-others", "--yes")
        told = json.loads(stack.command("drill", *here, drill.name, "--json"))
        assert (told["ok"], told["name"]) == (True, drill.name)
        with stack.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"SELECT kind, status, count(*) FROM {stack.settings.schema}.reminders_v1 GROUP BY 1, 2 ORDER BY 1"
            )
            assert cursor.fetchall() == [("drill", "delivered", 4), ("k", "pending", 1)]
    assert not stack.receiver.calls

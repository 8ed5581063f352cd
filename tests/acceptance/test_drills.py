"""Every drill holds, and checks the guarantees that it names; and the command ends, tells and tidies up as it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acceptance.harness import BIN, Stack, wait_until
from reminders.operate.drills.catalogue import DRILLS
from reminders.operate.drills.drill import Drill, Record
from reminders.operate.drills.stack import Servers, rehearse, throwaway_servers
from reminders.operate.drills.stack import Stack as DrillStack


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


def test_a_broken_drill_says_so_shows_the_logs_and_leaves_no_process(servers: Servers) -> None:
    running: list[psutil.Process] = []

    def broken(stack: DrillStack) -> None:
        running.extend(psutil.Process(line.pid) for line in stack.start("worker", "beat"))
        stack.start_supervised("scanner")
        wait_until(lambda: " ready." in stack.logs()["1-worker"], 30, "the worker is up")
        running.extend(psutil.Process().children(recursive=True))
        stack.check("G1", holds=False, text="something")

    record = Record(Drill("broken", "breaks", ("G1",), broken), {})
    rehearse(record.drill, servers, record)
    assert record.broken == "G1: not so: something"
    assert set(record.logs) == {"1-worker", "2-beat", "3-scanner"}
    assert len(running) >= 5
    assert not [process for process in running if process.is_running()]


@pytest.fixture
def shell(home: Path) -> dict[str, str]:
    """An environment whose throw-away folders are this test's own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REMINDERS_")}
    return {**inherited, "TMPDIR": str(home.parent), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


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
            lambda: not [p for p in of_folder(home.parent) if "celery" in " ".join(p.cmdline())],
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


@pytest.mark.timeout(120)
def test_on_an_installation_that_runs_only_what_the_drill_made_is_touched(stack: Stack) -> None:
    other = stack.schedule("http://127.0.0.1:9/", ["somebody else's"], due_in=3600, tenant="staging")[0]
    here = ("drill", "--here", "--tenant", "staging", "same-message")

    refused = stack.cli(*here, "--yes", check=False)
    assert refused.returncode == 1
    assert str(other.id) in refused.stderr
    alone = ("drill", "--here", "--tenant", "drills", "same-message")
    idle = stack.cli(*alone, "--yes", check=False)
    assert idle.returncode == 1
    assert "No worker of this installation consumes scan or deliver" in idle.stderr
    mistyped = stack.cli(*alone, check=False, stdin="drill\n")
    assert (mistyped.returncode, mistyped.stdout) == (1, "")
    assert "nothing was done" in mistyped.stderr
    deadly = stack.cli("drill", "--here", "--tenant", "drills", "--yes", "kill-in-call", check=False)
    assert deadly.returncode == 1
    assert "kills processes or servers" in deadly.stderr

    stack.start("scanner", "worker")
    wait_until(lambda: " ready." in stack.log("scanner") and " ready." in stack.log("worker"), 30, "both lines are up")
    done = stack.cli(*here, "--among-others", "--json", stdin="staging\n", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["ok"], told["name"]) == (True, "same-message")
    made = stack.query("SELECT kind, status, count(*) FROM reminders_v1 GROUP BY 1, 2 ORDER BY 1")
    assert made == [("drill", "delivered", 4), ("k", "pending", 1)]

"""The supervising parent, with children that are quick to start, and once with the real thing."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from time import monotonic
from uuid import uuid4

import psutil
import pytest

from reminders.broker.publishing import KombuPublisher
from reminders.pipeline.ports import Message

from .conftest import PARENT, eventually, worker_argv

PATIENT = """
import os, signal, sys
from reminders.supervised import hold_on
from threading import Event
hold_on(os.environ)
told = []
stop = Event()
def on_stop(signum, frame):
    told.append(signum)
    if sys.argv[1] == "obedient":
        stop.set()
signal.signal(signal.SIGTERM, on_stop)
os.write(1, f"up {os.getpid()}\\n".encode())
while not stop.wait(0.02):
    pass
os.write(1, f"down {os.getpid()} {' '.join(str(int(each)) for each in told)}\\n".encode())  # in one piece
"""


class Parent:
    def __init__(self, folder, *children, grace):
        self._out = folder / "parent"
        argv = [[f"child {number}", [sys.executable, "-c", *child]] for number, child in enumerate(children)]
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PARENT, json.dumps([argv, grace])],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.pids = set()

    def lines(self, kind):
        return [line.split() for line in self._out.read_text().splitlines() if line.startswith(kind)]

    def up(self, number):
        """The ids of the first `number` children that have come up."""
        eventually(lambda: len(self.lines("up")) >= number, 40)
        pids = [int(line[1]) for line in self.lines("up")]
        self.pids |= set(pids)
        return pids

    def end(self):
        for pid in [self.process.pid, *self.pids]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def output(self):
        return self._out.read_text()


@pytest.fixture
def parent_of(tmp_path):
    parents = []

    def start(*children, grace=5.0):
        parents.append(Parent(tmp_path, *children, grace=grace))
        return parents[-1]

    yield start
    for parent in parents:
        parent.end()


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_child_is_started_again_and_its_sibling_left_alone(parent_of):
    parent = parent_of((PATIENT, "obedient"), (PATIENT, "obedient"))
    first, second = parent.up(2)

    os.kill(first, signal.SIGKILL)

    assert parent.up(3)[2] not in {first, second}
    assert psutil.pid_exists(second)
    assert "was killed by SIGKILL; starting it again in 0.5 s" in parent.output()


def test_a_child_that_keeps_ending_is_started_ever_more_slowly(parent_of):
    parent = parent_of(("raise SystemExit(3)",))

    eventually(lambda: "ended with code 3; starting it again in 2.0 s" in parent.output(), 60)

    assert "starting it again in 0.5 s" in parent.output()
    assert "starting it again in 1.0 s" in parent.output()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_the_children_warmly_and_exits_0(parent_of, signum):
    parent = parent_of((PATIENT, "obedient"), (PATIENT, "obedient"))
    pids = parent.up(2)

    parent.process.send_signal(signum)

    assert parent.process.wait(30) == 0
    assert all(gone(pid) for pid in pids)
    assert sorted(parent.lines("down")) == sorted([["down", str(pid), str(int(signal.SIGTERM))] for pid in pids])


def test_a_terminals_interrupt_reaches_the_parent_alone(parent_of):
    parent = parent_of((PATIENT, "obedient"))
    (pid,) = parent.up(1)

    os.killpg(parent.process.pid, signal.SIGINT)  # what Ctrl-C does

    assert parent.process.wait(30) == 0
    assert parent.lines("down") == [["down", str(pid), str(int(signal.SIGTERM))]]


def test_a_child_that_does_not_stop_is_killed_after_the_grace(parent_of):
    parent = parent_of((PATIENT, "obedient"), (PATIENT, "stubborn"), grace=1.0)
    pids = parent.up(2)

    began = monotonic()
    parent.process.send_signal(signal.SIGTERM)

    assert parent.process.wait(30) == 0
    assert 0.9 < monotonic() - began < 10
    assert all(gone(pid) for pid in pids)
    assert parent.up(2) == pids  # none was started again


@pytest.mark.parametrize("manner", ["obedient", "stubborn"])
def test_children_end_when_their_parent_is_killed(parent_of, manner):
    parent = parent_of((PATIENT, manner), grace=1.0)
    (pid,) = parent.up(1)

    parent.process.kill()

    eventually(lambda: gone(pid), 20)


def test_what_children_print_can_be_taken_line_by_line(tmp_path):
    script = (
        "import signal, sys\n"
        "from reminders.supervise import Child, supervise\n"
        "def show(name, line):\n"
        "    print(f'<{name}|{line}>', flush=True)\n"
        "    if 'bye' in line: signal.raise_signal(signal.SIGTERM)\n"
        "child = Child('talker', (sys.executable, '-c', \"import sys; print('out', flush=True); print('bye', file=sys.stderr)\"))\n"
        "sys.exit(supervise([child], 5, output=show))\n"
    )

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)

    assert run.returncode == 0
    assert set(run.stdout.splitlines()) >= {"<talker|out>", "<talker|bye>"}


def test_a_worker_told_twice_finishes_its_task_and_takes_no_other(probe, broker_settings):
    publisher = KombuPublisher(broker_settings)
    parent = probe.parent(("worker", ["-m", *worker_argv("deliver", concurrency=1)]), grace=15)
    probe.await_ready()
    publisher.publish([Message(uuid4(), "wait", "deliver"), Message(uuid4(), "left-over", "deliver")])
    eventually(lambda: probe.notes("begin"), 10)
    (worker,) = psutil.Process(parent.pid).children()

    worker.send_signal(signal.SIGTERM)  # as a platform does that signals every process,
    eventually(lambda: "Warm shutdown" in probe.output(), 10)  # (two at the same instant arrive as one)
    parent.send_signal(signal.SIGTERM)  # and the parent passes its own on
    eventually(lambda: "Stopping" in probe.output(), 10)
    probe.let_go()

    assert parent.wait(15) == 0
    assert [note[2] for note in probe.notes("deliver")] == ["wait"]
    publisher.close()


@pytest.mark.parametrize(("code", "started"), [(0, 1), (3, 0)])
def test_children_are_started_only_after_the_first_has_ended_well(tmp_path, code, started):
    script = (
        "import signal, sys\n"
        "from reminders.supervise import Child, supervise\n"
        "def show(name, line):\n"
        "    print(f'<{name}|{line}>', flush=True)\n"
        "    if 'bye' in line: signal.raise_signal(signal.SIGTERM)\n"
        f"first = Child('first', (sys.executable, '-c', 'print(1); raise SystemExit({code})'))\n"
        "child = Child('child', (sys.executable, '-c', 'print(\"bye\")'))\n"
        "sys.exit(supervise([child], 5, output=show, first=first))\n"
    )

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)

    assert run.returncode == code
    assert run.stdout.splitlines() == ["<first|1>", "<child|bye>"][: 1 + started]


def test_a_first_that_is_killed_is_started_again(tmp_path):
    marker = tmp_path / "been-here"
    script = (
        "import sys\n"
        "from reminders.supervise import Child, supervise\n"
        "kill = 'import os, pathlib; p = pathlib.Path(sys.argv[1]); first = not p.exists(); p.touch(); first and os.kill(os.getpid(), 9); raise SystemExit(7)'\n"
        "child = Child('first', (sys.executable, '-c', 'import sys; ' + kill, sys.argv[1]))\n"
        "sys.exit(supervise([], 5, first=child))\n"
    )

    run = subprocess.run([sys.executable, "-c", script, str(marker)], capture_output=True, timeout=30, check=False)

    assert run.returncode == 7

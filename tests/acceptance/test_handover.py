"""Two dispatchers on one ledger: handed over and back in mid-drain, with kill -9 of everything in turn, each reminder is called once."""

from __future__ import annotations

import json
import subprocess
import threading

import psycopg2
import pytest

from acceptance.harness import BIN, ROOT, Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.ledger.database import MARK, driver_url

FIRST, LATER, MANY = 300, 40, 24
LINES = ("beat", "scanner", "worker", "alone")
PATIENT = {
    "REMINDERS_HTTP_DEADLINE": "120s", "REMINDERS_CLAIM": "150s", "REMINDERS_GRACE": "130s", "REMINDERS_SCAN_EVERY": "5s",
    "REMINDERS_IN_FLIGHT": "32",
}  # fmt: skip
"""Calls stay open while two commands and eight processes start, on a busy machine too."""
WHY = ("--reason", "rehearsal", "--json")


class Gates:
    """A receiver that answers the first calls at once, and the next ones when it is told to."""

    def __init__(self, receiver: ScriptedReceiver) -> None:
        self.open_to = 0
        self._may_go = threading.Condition()
        self._answered = 0
        receiver.answer = self._answer

    def _answer(self, _key: str, _call: int, _body: bytes) -> int:
        with self._may_go:
            self._answered += 1
            number = self._answered
            return 200 if self._may_go.wait_for(lambda: number <= self.open_to, 110) else 500

    def let(self, number: int) -> None:
        with self._may_go:
            self.open_to = number
            self._may_go.notify_all()


def side_of(stack: Stack, side: str) -> set[int]:
    """The processes that call for a side."""
    return {child.pid for child in stack.lines[f"{side}worker"].children()}


def called_by(stack: Stack) -> set[int]:
    return {int(worker.split(":")[1]) for (worker,) in stack.query("SELECT DISTINCT worker FROM delivery_attempts")}


def handed(stack: Stack, to: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(stack.cli("handover", "t", "--to", to, *WHY).stdout)
    return found


@pytest.mark.timeout(400)
def test_handed_over_and_back_in_mid_drain_with_kills_each_reminder_is_called_once(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gates = Gates(receiver)
    green = {"REMINDERS_DISPATCHER": "green", "REDIS_URL": stack.environ["REDIS_URL"].removesuffix("/0") + "/1"}
    stack.start(*LINES, **PATIENT)
    stack.schedule(receiver.url, [f"r{n}" for n in range(FIRST)])
    receiver.wait_for(lambda r: r.calls.total() >= MANY, 60, "many calls of main are under way")
    stack.start(*LINES, side="green-", **PATIENT, **green)
    main_pids = side_of(stack, "")

    # Killed in the middle of it, the handover has taken effect; said again, it is completed.
    holder = psycopg2.connect(
        driver_url(stack.environ["DATABASE_URL"]).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    with holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLE reminders.pauses IN {MARK}")
        command = [f"{BIN}/reminders", "handover", "t", "--to", "green", "--reason", "rehearsal"]
        doomed = subprocess.Popen(command, env=stack.environ, cwd=ROOT)
        owner = "SELECT dispatcher FROM tenant_policies WHERE tenant_id = 't'"
        wait_until(lambda: stack.query(owner) == [("green",)], 60, "the tenant is green's")
        doomed.kill()
        doomed.wait()
    holder.close()
    said = handed(stack, "green")
    opened = said["open_claims"]
    assert isinstance(opened, int)
    assert said["changed"] == {}
    assert opened >= MANY

    # The old side's open claims end; nothing of the rest is its own any more, and it vanishes.
    gates.let(opened)
    wait_until(
        lambda: stack.counts().get("delivered") == opened, 60, lambda: f"what was open ends; have {stack.counts()}"
    )
    for name in LINES:
        stack.lines.pop(name).kill()
    receiver.wait_for(lambda r: r.calls.total() >= opened + MANY, 90, "many calls of green are under way")
    stack.lines["green-scanner"].kill_children()
    ended = opened + MANY + 20
    gates.let(ended)
    receiver.wait_for(lambda r: r.calls.total() >= ended + MANY, 90, "green goes on")
    wait_until(
        lambda: stack.counts().get("delivered") == ended, 60, lambda: f"what may end has ended; have {stack.counts()}"
    )
    green_pids = side_of(stack, "green-")

    # Back again in mid-drain, the side that had it is killed once its calls have ended.
    stack.start(*LINES, **PATIENT)
    back = handed(stack, "main")
    assert back["changed"] == {"t": "green"}
    assert isinstance(back["open_claims"], int)
    assert back["open_claims"] >= MANY
    ended += back["open_claims"]
    gates.let(ended)
    wait_until(
        lambda: stack.counts().get("delivered") == ended, 60, lambda: f"what was open ends; have {stack.counts()}"
    )
    for name in LINES:
        stack.lines.pop(f"green-{name}").kill()
    stack.schedule(receiver.url, [f"later{n}" for n in range(LATER)])
    gates.let(FIRST + LATER)
    stack.wait_all("delivered", FIRST + LATER, 120)
    assert set(receiver.calls.values()) == {1}
    assert receiver.calls.total() == FIRST + LATER
    callers = called_by(stack)
    assert callers & main_pids
    assert callers & green_pids
    assert callers & side_of(stack, "")
    assert stack.query("SELECT dispatcher, epoch FROM tenant_policies WHERE tenant_id = 't'") == [("main", 2)]

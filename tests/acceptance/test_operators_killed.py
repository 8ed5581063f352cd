"""Pause, resume and drain in mid-flow, with kill -9 of the command, of workers with calls open, and of the scanner."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import psycopg2
import pytest

from acceptance.harness import BIN, ROOT, Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from acceptance.test_limits import most_within
from acceptance.test_slow_calls import called_within, hang
from reminders.ledger.database import MARK, driver_url
from reminders.ledger.releasing import AHEAD

WHY = ("--reason", "rehearsal")
MANY, OPEN, RATE = 300, 64, 40


def drained(stack: Stack, *arguments: str) -> dict[str, int]:
    said = stack.cli("drain", "--tenant", "late", *arguments, "--json")
    found: dict[str, int] = json.loads(said.stdout.splitlines()[-1])
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_killed_in_mid_pause_with_calls_open_nothing_more_is_called_and_in_mid_resume_nothing_is_lost(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(60) else 500
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_SCAN_EVERY="5s")
    stack.schedule(receiver.url, [f"r{n}" for n in range(MANY)], tenant="loud")
    # As calls become slow, more of them are begun.
    receiver.wait_for(lambda r: len(r.calls) >= OPEN, 60, "all threads are in mid-call")

    # Killed while it waits for claims, the pause is in force; said again, it is the same one.
    holder = psycopg2.connect(
        driver_url(stack.environ["DATABASE_URL"]).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    with holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLE reminders.pauses IN {MARK}")
        command = [f"{BIN}/reminders", "pause", "--tenant", "loud", *WHY]
        doomed = subprocess.Popen(command, env=stack.environ, cwd=ROOT)
        wait_until(lambda: stack.query("SELECT 1 FROM pauses WHERE ended_at IS NULL"), 30, "the pause is in force")
        doomed.kill()
        doomed.wait()
    holder.close()
    said = json.loads(stack.cli("pause", "--tenant", "loud", *WHY, "--json").stdout)
    assert said["created"] is False
    called = receiver.calls.total()
    assert said["open_claims"] <= called

    # Those in mid-call are killed with their worker: they are held once their claims have ended, and not called again.
    stack.lines["worker"].kill_children()
    gate.set()
    stack.lines["scanner"].kill_children()
    wait_until(
        lambda: stack.counts().get("held", 0) + stack.counts().get("delivered", 0) == MANY,
        90,
        f"all is held but what was delivered; have {stack.counts()}",
    )
    assert receiver.calls.total() == called
    held = stack.counts()["held"]
    assert held >= MANY - OPEN

    resumed_at = time.time()
    stack.cli("resume", said["id"], "--rate", f"{RATE}/s")
    receiver.wait_for(lambda r: r.calls.total() > called + RATE, 60, "what was held is sent again")
    stack.lines["worker"].kill_children()
    stack.lines["scanner"].kill_children()
    stack.wait_all("delivered", MANY, 120)
    times = [at for at, _ in receiver.order if at >= resumed_at]
    assert max(times) - resumed_at > (held - 1) / RATE
    # A bucket's worth may go together; what a killed worker had in mid-call is repeated besides.
    assert most_within(times, 2.0) <= 2 * RATE + 1.25 * RATE + OPEN
    assert len(set(receiver.calls)) == MANY


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_drain_whose_workers_and_scanner_were_away_keeps_its_rate_and_stops_at_once(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    rate, count = 4, 120
    given = rate * int(AHEAD) + 1
    stack.schedule(receiver.url, [f"r{n}" for n in range(count)], tenant="late")
    assert drained(stack, "--rate", f"{rate}/s", *WHY, "--no-watch")["left"] == count
    stack.start("beat", "scanner", REMINDERS_SCAN_EVERY="5s")
    published = "SELECT count(*) FROM due WHERE let_go_by IS NOT NULL AND status = 'published'"
    wait_until(lambda: stack.query(published) == [(given,)], 60, "all that have a turn are on their way to nobody")
    stack.lines["scanner"].kill_children()
    found = json.loads(stack.cli("drain", "--list", "--json").stdout)
    assert (found["going"], found["held"]) == (given, count - given)

    stack.start("worker", "alone")
    receiver.wait_for(lambda r: r.calls.total() >= 8 * rate, 60, "workers are back")
    stack.lines["worker"].kill_children()
    receiver.wait_for(lambda r: r.calls.total() >= 12 * rate, 60, "it goes on")
    assert most_within([at for at, _ in receiver.order], 5.0) <= 5 * rate + 1.25 * rate + 2 * rate

    stopped = drained(stack, "--stop", *WHY)
    assert stopped["going"] == 0
    wait_until(lambda: set(stack.counts()) == {"held", "delivered"}, 60, f"open claims end; have {stack.counts()}")
    assert stack.counts() == {"held": stopped["held"], "delivered": count - stopped["held"]}
    drained(stack, "--rate", "50/s", *WHY, "--no-watch")
    stack.lines["scanner"].kill_children()
    stack.wait_all("delivered", count, 120)


@pytest.mark.timeout(200)
def test_a_worker_killed_with_slow_calls_open_holds_up_no_neighbour_and_each_is_called_again(
    home: Path, receiver: ScriptedReceiver
) -> None:
    slots, hanging = 4, 12
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if body["reference"] != "hang" or gate.wait(60) else 500
    settings = {"REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": str(slots), "REMINDERS_SCAN_EVERY": "5s"}
    with installation(home, **settings) as stack:
        stack.start("beat", "scanner", "worker", "alone")
        assert called_within(stack, receiver, "before") < 30
        hang(stack, receiver, "first", hanging)
        receiver.wait_for(lambda r: r.calls.total() == 1 + hanging, 30, "more calls than slots are open")
        stack.lines["worker"].kill_children()
        # Its parent starts another one, whose slots are all free.
        assert called_within(stack, receiver, "fresh") < 20
        gate.set()
        stack.wait_all("delivered", 2 + hanging, 120)
        again = [key for key, times in receiver.calls.items() if times == 2]
        assert len(again) == hanging
        assert set(receiver.calls.values()) == {1, 2}

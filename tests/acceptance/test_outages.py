"""Postgres down, workers away, and the minute held: what a late or missing part costs, and what it must not."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acceptance.harness import installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver


@pytest.mark.long
@pytest.mark.timeout(240)
def test_postgres_down_for_a_minute_is_waited_out(home: Path, receiver: ScriptedReceiver) -> None:
    with installation(home) as stack:
        stack.start("beat", "scanner", "worker", "alone")
        stack.schedule(receiver.url, [f"r{n}" for n in range(1200)])
        receiver.wait_for(lambda r: r.calls.total() > 100, 40, "the drain is under way")
        stack.kill_postgres()
        down = time.monotonic()
        wait_until(lambda: time.monotonic() - down >= 60, 70, "a minute has passed")
        stack.start_services()
        stack.schedule(receiver.url, ["fresh"])
        stack.wait_all("delivered", 1201, 100)
        # Outcomes that could not be recorded were offered again by their workers: nothing was called twice.
        assert set(receiver.calls.values()) == {1}
        assert stack.query("SELECT count(*) FROM dead_letters") == [(0,)]


@pytest.mark.timeout(200)
def test_workers_away_for_ten_deadlines_find_at_most_one_queue_and_a_fifth(
    home: Path, receiver: ScriptedReceiver
) -> None:
    with installation(home, REMINDERS_REDELIVER="2s", REMINDERS_IN_FLIGHT="100") as stack:
        stack.start("beat", "scanner")
        stack.schedule(receiver.url, [f"r{n}" for n in range(300)])
        wait_until(lambda: stack.redis.llen("reminders:deliver") >= 100, 30, "the queue is full")
        start = time.monotonic()
        longest = 0
        while time.monotonic() - start < 10 * 2:
            longest = max(longest, stack.redis.llen("reminders:deliver"))
        assert longest <= 1.2 * 100
        stack.start("worker", "alone")
        stack.wait_all("delivered", 300, 90)
        assert set(receiver.calls.values()) == {1}


@pytest.mark.timeout(120)
def test_the_minute_is_held_and_lateness_is_about_a_second(home: Path, receiver: ScriptedReceiver) -> None:
    with installation(home) as stack:
        stack.start("beat", "scanner", "worker")
        stack.schedule(receiver.url, ["first"])
        receiver.wait_for(lambda r: r.called_at("first") is not None, 30, "the scan holds the minute")
        due = stack.schedule(receiver.url, ["ahead"], due_in=10)[0].due_at
        receiver.wait_for(lambda r: r.called_at("ahead") is not None, 70, "the one scheduled ahead is called")
        called = datetime.fromtimestamp(receiver.called_at("ahead") or 0, UTC)
        # A second at most, and the margin of a busy machine. The next tick would come forty later.
        assert 0 <= (called - due).total_seconds() < 6


@pytest.mark.timeout(120)
def test_terminating_the_whole_process_group_loses_and_repeats_nothing(home: Path, receiver: ScriptedReceiver) -> None:
    """A platform signals every process of a dyno at once, not only the parent."""
    pause = threading.Event()
    receiver.answer = lambda _key, _call, _body: 500 if pause.wait(0.2) else 200
    with installation(home) as stack:
        stack.start("beat", "scanner", "worker", "alone")
        stack.schedule(receiver.url, [f"r{n}" for n in range(800)])
        receiver.wait_for(lambda r: r.calls.total() > 100, 40, "the drain is under way")
        stack.lines["worker"].terminate_all()
        stack.stop("worker")
        stack.start("worker")
        stack.wait_all("delivered", 800, 75)
        assert set(receiver.calls.values()) == {1}

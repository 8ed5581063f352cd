"""Two hosts work on one ledger; one is frozen in mid-drain, past the ends of its claims, and returns.

A host is a set of process lines, each a session of its own under its supervising parent, with a scanner and a beat too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from acceptance.harness import Stack, freeze, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.celery_options import DELIVER_TASK

LINES = ("beat", "scanner", "worker", "alone")
SETTINGS = {
    "REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": "8", "REMINDERS_IN_FLIGHT": "64",
    "REMINDERS_HTTP_DEADLINE": "5s", "REMINDERS_CLAIM": "12s",
}  # fmt: skip
STAYS, FREEZES = "stays-", "freezes-"
COUNT = 1500
LATENCY = 0.05
"""Seconds of each call: sixteen threads need five seconds for all, and a freeze finds most of them in a call."""


def processes(stack: Stack, side: str) -> list[psutil.Process]:
    """Of one host, parents first: a parent that still runs would start what has been stopped."""
    lines = [stack.lines[f"{side}{name}"] for name in LINES]
    return [psutil.Process(line._process.pid) for line in lines] + [each for line in lines for each in line.children()]


@contextmanager
def frozen(stack: Stack, side: str) -> Iterator[list[int]]:
    """The host stands still for the block; the ids of its processes."""
    stopped = processes(stack, side)
    try:
        freeze(*stopped)
        yield [process.pid for process in stopped]
    finally:
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def claimed_by(stack: Stack, pids: list[int]) -> set[str]:
    rows = stack.query(
        "SELECT delivery_key FROM notification_deliveries WHERE status = 'sending' AND split_part(worker, ':', 2)::int = ANY(%s)",
        pids,
    )
    return {key for (key,) in rows}


def unacknowledged(stack: Stack) -> list[bytes]:
    """Deliveries that are queued, or in somebody's hands. (A scanner holds the next tick of beat.)"""
    held = [message for message in stack.redis.hvals("reminders:unacked") if DELIVER_TASK.encode() in message]
    return held + stack.redis.lrange("reminders:deliver", 0, -1)


def callers(stack: Stack) -> int:
    return int(stack.query("SELECT count(DISTINCT worker) FROM delivery_attempts WHERE outcome = 'delivered'")[0][0])


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_host_that_is_frozen_in_mid_drain_and_returns_loses_and_repeats_nothing(
    home: Path, receiver: ScriptedReceiver
) -> None:
    def answer(_key: str, _call: int, _body: dict[str, object]) -> int:
        threading.Event().wait(LATENCY)
        return 200

    receiver.answer = answer
    with installation(home, **SETTINGS) as stack:
        for side in (STAYS, FREEZES):
            stack.start(*LINES, side=side)
        stack.schedule(receiver.url, [f"warm-{number}" for number in range(100)])
        stack.wait_all("delivered", 100, 90)
        references = [f"drained-{number}" for number in range(COUNT)]
        made = stack.schedule(receiver.url, references[: COUNT // 2]) + stack.schedule(
            receiver.url, references[COUNT // 2 :]
        )
        wait_until(lambda: callers(stack) == 2, 60, "both hosts deliver")
        receiver.wait_for(lambda r: r.calls.total() > 100 + COUNT // 10, 60, "a tenth is called")

        with frozen(stack, FREEZES) as pids:
            in_its_hands = claimed_by(stack, pids)
            assert in_its_hands, "it was frozen in mid-drain"
            assert len(receiver.calls) < COUNT
            # Its claims end after 12 s; whoever stays repairs them, and finds what the other's messages were about.
            stack.wait_all("delivered", 100 + COUNT, 180)
            at_return = receiver.calls.copy()

        # What the returned threads hold is recorded before they take anything else.
        before = stack.query("SELECT clock_timestamp()")[0][0]
        workers = (
            "SELECT count(*) FROM delivery_attempts WHERE claimed_at > %s AND split_part(worker, ':', 2)::int = ANY(%s)"
        )
        after = 0

        def delivers_again() -> bool:
            """There is always more to do: however late it wakes, the other one has not done all of it."""
            nonlocal after
            stack.schedule(receiver.url, [f"after-{after + number}" for number in range(40)])
            after += 40
            return int(stack.query(workers, before, pids)[0][0]) > 0

        wait_until(delivers_again, 90, "the host that returned delivers again", every=0.5)
        stack.wait_all("delivered", 100 + COUNT + after, 90)
        wait_until(lambda: not unacknowledged(stack), 60, "every message is acknowledged")

        keys = {each.delivery_key for each in made}
        repeated = {key for key, calls in receiver.calls.items() if calls > 1}
        assert keys <= set(receiver.calls), "nothing is lost"
        assert repeated <= in_its_hands, "nothing is repeated but what a frozen claim left unknown"
        assert max(receiver.calls.values()) <= 2
        assert {key for key in at_return if receiver.calls[key] > at_return[key]} <= in_its_hands
        assert all(len(bodies) == 1 for bodies in receiver.bodies.values()), "a repeat is the same, to the byte"
        assert stack.query("SELECT count(*) FROM dead_letters") == [(0,)]

"""Redis is emptied, stopped and started in the middle of the work: the ledger alone rebuilds the queue."""

from __future__ import annotations

import threading
import time

import pytest

from acceptance.harness import Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver

SLOTS = 8
FEW_THREADS = {
    "REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": str(SLOTS), "REMINDERS_IN_FLIGHT": "256",
}  # fmt: skip
"""Slow calls leave their slots to others: such a worker takes 64 messages at most, and the others stay queued."""
PATIENT = {"REMINDERS_HTTP_DEADLINE": "60s", "REMINDERS_CLAIM": "90s", "REMINDERS_GRACE": "70s"}
"""No call may end by itself before the test has looked."""


@pytest.mark.timeout(300)
def test_flushed_with_a_full_queue_nothing_is_lost_or_repeated_and_fresh_work_flows(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(80) else 500
    stack.start("beat", "scanner", "worker", "alone", "maintenance", **FEW_THREADS, **PATIENT)
    stack.schedule(receiver.url, [f"r{n}" for n in range(600)])
    receiver.wait_for(lambda r: len(r.calls) >= SLOTS, 60, "all slots are in mid-call")
    wait_until(lambda: stack.redis.llen("reminders:deliver") > 100, 30, "the queue is full")
    stack.redis.flushall()
    flushed = time.time()
    gate.set()
    stack.schedule(receiver.url, ["fresh"])
    stack.wait_all("delivered", 601, 90)
    assert set(receiver.calls.values()) == {1}
    # It is the last of all. Waiting for the deadline of what was lost, it would come after two minutes.
    assert receiver.called_at("fresh") - flushed < 30
    # Beat's connection is older than the flush, the management task's is new: both still reach their queues.
    last = stack.query(
        "SELECT max(relid::regclass::text) FROM pg_partition_tree('delivery_attempts') WHERE relid::regclass::text ~ '_[0-9]+$'"
    )[0][0]
    stack.execute(f"DROP TABLE {last}")
    ticks = stack.query("SELECT taken FROM ticks")[0][0]
    stack.call("reminders.make_partitions")
    wait_until(lambda: stack.query("SELECT to_regclass(%s)", last)[0][0], 60, "the management task is done")
    # They are a minute apart, and a scanner takes one when its minute is over.
    wait_until(lambda: stack.query("SELECT taken FROM ticks")[0][0] > ticks, 130, "beat's next tick arrives")


@pytest.mark.timeout(300)
def test_redis_restarted_in_mid_drain_loses_nothing(stack: Stack, receiver: ScriptedReceiver) -> None:
    stack.start("beat", "scanner", "worker", "alone")
    stack.schedule(receiver.url, [f"r{n}" for n in range(1500)])
    receiver.wait_for(lambda r: len(r.calls) > 300, 40, "the drain is under way")
    stack.kill_redis()
    stack.start_services()
    stack.schedule(receiver.url, ["fresh"])
    # A batch that was on its way when Redis died waits for its lease's end, a minute; with the usual margin of three.
    stack.wait_all("delivered", 1501, 180)
    assert set(receiver.effects.values()) == {1}
    assert set(receiver.calls.values()) == {1}

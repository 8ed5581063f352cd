"""Redis is emptied, stopped and started in the middle of the work: the ledger alone rebuilds the queue."""

from __future__ import annotations

import threading
import time

import pytest

from acceptance.harness import Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver


@pytest.mark.timeout(150)
def test_flushed_with_a_full_queue_nothing_is_lost_or_repeated_and_fresh_work_flows(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(60) else 500
    stack.start("beat", "scanner", "worker", "alone", "maintenance")
    stack.schedule(receiver.url, [f"r{n}" for n in range(600)])
    receiver.wait_for(lambda r: len(r.calls) == 64, 40, "all threads are in mid-call")
    wait_until(lambda: stack.redis.llen("reminders:deliver") > 100, 20, "the queue is full")
    stack.redis.flushall()
    flushed = time.time()
    gate.set()
    stack.schedule(receiver.url, ["fresh"])
    stack.wait_all("delivered", 601, 60)
    assert set(receiver.calls.values()) == {1}
    assert receiver.called_at("fresh") - flushed < 10
    # Beat's connection is older than the flush, the management task's is new: both still reach their queues.
    last = stack.query(
        "SELECT max(relid::regclass::text) FROM pg_partition_tree('delivery_attempts') WHERE relid::regclass::text ~ '_[0-9]+$'"
    )[0][0]
    stack.execute(f"DROP TABLE {last}")
    ticks = stack.query("SELECT taken FROM ticks")[0][0]
    stack.call("reminders.make_partitions")
    wait_until(lambda: stack.query("SELECT to_regclass(%s)", last)[0][0], 20, "the management task is done")
    wait_until(lambda: stack.query("SELECT taken FROM ticks")[0][0] > ticks, 70, "beat's next tick arrives")


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

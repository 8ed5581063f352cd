"""A drain and a capped flow against running processes, with kill -9 in their middle, and Redis restarted under a cap."""

from __future__ import annotations

import itertools
import json
import threading

import pytest

from acceptance.harness import Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.ledger.releasing import AHEAD

WHY = ("--reason", "rehearsal")
STALL = 2.0
"""Seconds by which a busy machine may hold up calls that have their turns, until they come together."""


def most_within(times: list[float], seconds: float) -> int:
    """The most calls of any span of so many seconds."""
    ordered = sorted(times)
    return max(sum(start <= each <= start + seconds for each in ordered) for start in ordered)


@pytest.mark.timeout(240)
def test_killed_in_the_middle_of_a_drain_and_of_a_capped_flow_nothing_is_lost_and_the_rate_is_kept(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    drained, capped, rate = 150, 150, 10
    for name, count in (("late", drained), ("capped", capped)):
        stack.schedule(receiver.url, [f"{name}-{n}" for n in range(count)], tenant=name)
    stack.cli("rate", "set", "--tenant", "capped", "--per-second", str(rate), *WHY)
    begun = json.loads(
        stack.cli("drain", "--tenant", "late", "--rate", f"{rate}/s", *WHY, "--no-watch", "--json").stdout
    )
    assert begun["left"] == drained
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_SCAN_EVERY="5s")
    receiver.wait_for(lambda r: r.calls.total() > 40, 60, "both are under way")
    stack.lines["scanner"].kill_children()
    receiver.wait_for(lambda r: r.calls.total() > 100, 60, "both go on")
    stack.lines["worker"].kill_children()
    fresh = stack.schedule(receiver.url, ["fresh"], tenant="quiet")[0]
    receiver.wait_for(lambda r: fresh.delivery_key in r.calls, 40, "a neighbour is called meanwhile")
    stack.wait_all("delivered", drained + capped + 1, 150)
    for name, together in (("late", AHEAD * rate), ("capped", 2 * rate)):
        # No five seconds have more than the rate and what may go together: of a drain, the turns that had been given when
        # the scanner died; of a cap, its burst, in the bucket and on the way. What was in mid-call is repeated besides.
        times = [at for at, body in receiver.order if body["reference"].startswith(name)]
        assert most_within(times, 5.0) <= (5 + STALL) * rate + together + rate, name
    assert json.loads(stack.cli("drain", "--tenant", "late", "--json").stdout.splitlines()[-1])["left"] == 0


@pytest.mark.timeout(240)
def test_redis_killed_in_the_middle_of_a_capped_flow_gives_no_second_burst(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    count, rate = 120, 10
    stack.cli("rate", "set", "--tenant", "t", "--per-second", str(rate), *WHY)
    stack.schedule(receiver.url, [f"r{n}" for n in range(count)])
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_SCAN_EVERY="5s")
    receiver.wait_for(lambda r: r.calls.total() > 30, 60, "it is under way")
    stack.kill_redis()
    stack.start_services()
    stack.wait_all("delivered", count, 150)
    times = [at for at, _ in receiver.order]
    assert most_within(times, 4.0) <= (4 + STALL) * rate + 2 * rate
    assert max(times) - min(times) >= (count - 2 * rate) / rate - STALL


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_killed_workers_places_under_a_cap_on_calls_come_back(stack: Stack, receiver: ScriptedReceiver) -> None:
    hangs, gate = itertools.count(), threading.Event()
    receiver.answer = lambda key, call, body: 500 if next(hangs) < 3 and not gate.wait(60) else 200
    stack.cli("rate", "set", "--tenant", "t", "--concurrent", "3", *WHY)
    stack.schedule(receiver.url, [f"r{n}" for n in range(12)])
    stack.start("beat", "scanner", "worker", "alone", "retry", REMINDERS_SCAN_EVERY="5s")
    receiver.wait_for(lambda r: r.calls.total() == 3, 60, "as many calls as may be are open")
    stack.lines["worker"].kill_children()
    assert stack.counts()["sending"] == 3
    gate.set()
    wait_until(lambda: stack.counts().get("delivered", 0) >= 9, 120, "their places came back with their claims")
    stack.wait_all("delivered", 12, 90)

"""Processes are killed for real, with the shipped settings, and what the receiver saw is what counts."""

from __future__ import annotations

import threading

import pytest

from acceptance.harness import Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver


def hang_first_calls(receiver: ScriptedReceiver) -> threading.Event:
    """Every key's first call blocks until the event is set, then answers 200."""
    gate = threading.Event()

    def answer(_key: str, call: int, _body: object) -> int:
        if call == 1:
            gate.wait(60)
        return 200

    receiver.answer = answer
    return gate


@pytest.mark.timeout(150)
def test_worker_killed_in_mid_call_is_repeated_within_a_minute_where_the_destination_deduplicates(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = hang_first_calls(receiver)
    stack.start("beat", "scanner", "worker", "alone")
    stack.schedule(receiver.url, ["a", "b", "c"])
    receiver.wait_for(lambda r: len(r.calls) == 3, 30, "all three are in mid-call")
    stack.lines["worker"].kill_children()
    stack.wait_all("delivered", 3, 60)
    gate.set()
    assert set(receiver.calls.values()) == {2}
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values()), "every attempt carries the same body"
    recorded = stack.query("SELECT outcome, error_class FROM delivery_attempts ORDER BY claimed_at, outcome DESC")
    assert sorted(recorded) == [("delivered", "")] * 3 + [("unknown", "worker_lost")] * 3


@pytest.mark.timeout(150)
def test_worker_killed_in_mid_call_goes_to_review_where_the_destination_does_not_deduplicate(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    gate = hang_first_calls(receiver)
    stack.schedule(receiver.url, ["a"], due_in=2)
    stack.cli(
        "destination", "set", "--tenant", "t", "--channel", "webhook", "--to", receiver.url, "--deduplicates", "no"
    )
    stack.start("beat", "scanner", "worker", "alone")
    receiver.wait_for(lambda r: len(r.calls) == 1, 30, "it is in mid-call")
    stack.lines["worker"].kill_children()
    stack.wait_all("dead", 1, 60)
    gate.set()
    assert receiver.calls.total() == 1
    assert stack.query("SELECT kind, state FROM dead_letters") == [("unknown", "open")]


@pytest.mark.long
@pytest.mark.timeout(150)
def test_four_killed_workers_do_not_stop_publishing_for_more_than_a_second(
    stack: Stack, receiver: ScriptedReceiver
) -> None:
    """Each kill leaves messages that stay unacknowledged for ten minutes; room must not be kept for them."""
    pause = threading.Event()
    receiver.answer = lambda _key, _call, _body: 500 if pause.wait(0.25) else 200
    stack.start("beat", "scanner", "worker", "alone", REMINDERS_IN_FLIGHT="64")
    wait_until(lambda: len(stack.lines["worker"].children()) == 2, 30, "both worker processes are up")
    count = 2400
    for n in range(0, count, 8):
        stack.schedule(receiver.url, [f"r{m}" for m in range(n, n + 8)], due_in=5 + n / 80)
    for kill in range(1, 5):
        receiver.wait_for(lambda r, kill=kill: r.calls.total() >= 400 * kill, 60, f"it is time for kill {kill}")
        stack.lines["worker"].children()[0].kill()
    stack.wait_all("delivered", count, 90)
    gap = stack.query(
        "SELECT max(claimed_at - before) FROM (SELECT claimed_at, lag(claimed_at) OVER (ORDER BY claimed_at) AS before "
        "FROM delivery_attempts WHERE claimed_at < (SELECT max(due_at) FROM reminders)) AS pairs"
    )[0][0].total_seconds()
    assert gap < 3.0, "the bound is one second, with the margin of three that loaded machines get"


@pytest.mark.timeout(120)
def test_stopping_each_process_line_loses_and_repeats_nothing(stack: Stack, receiver: ScriptedReceiver) -> None:
    stack.start("beat", "scanner", "worker", "retry", "alone", "maintenance")
    for name in ("worker", "scanner", "beat"):
        stack.schedule(receiver.url, [f"{name}-{n}" for n in range(300)])
        receiver.wait_for(
            lambda r, name=name: r.called_at(f"{name}-0") is not None or bool(r.calls), 30, f"{name}'s are under way"
        )
        stack.stop(name)
        stack.start(name)
    stack.wait_all("delivered", 900, 60)
    assert set(receiver.calls.values()) == {1}


@pytest.mark.timeout(120)
def test_every_process_line_is_back_within_a_minute_of_kill_9(stack: Stack, receiver: ScriptedReceiver) -> None:
    names = ("web", "beat", "scanner", "worker", "retry", "alone", "maintenance")
    stack.start(*names)
    for name in names:
        wait_until(stack.lines[name].children, 30, f"{name} has started")
    before = {name: {child.pid for child in stack.lines[name].children()} for name in names}
    for name in names:
        stack.lines[name].kill_children()
    for name in names:
        wait_until(
            lambda name=name: {child.pid for child in stack.lines[name].children()} - before[name],
            60,
            f"{name} is back",
        )
    stack.schedule(receiver.url, ["after"])
    stack.wait_all("delivered", 1, 60)

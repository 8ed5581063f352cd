"""kill -9 of a worker in each gap between two of its steps.

Each with two reminders: one whose destination deduplicates on the key, and one whose destination does not.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from threading import Event

from reminders.operate.drills.drill import QUICK_CLAIM, Drill
from reminders.operate.drills.scene import told
from reminders.operate.drills.stack import Stack


def before_claim(stack: Stack) -> None:
    """A worker took the messages and had not asked for its claims."""
    _kill_worker(stack, "taken", "after it took the messages, before the claim", {"published": 2}, calls=0)
    stack.start("worker")
    stack.scan()
    stack.did("started another; the comparison of ledger and broker is to send them again")
    stack.ended({"delivered": 2})
    stack.check_called_once_each(stack.made)


def after_claim(stack: Stack) -> None:
    """The claims are committed; nobody was called."""
    _kill_worker(stack, "claimed", "after the claim's commit, before the call", {"sending": 2}, calls=0)
    _repeat_or_review(stack, "alone", first_calls=0)


def in_call(stack: Stack) -> None:
    """The receiver has the calls and has not answered."""
    gate = Event()
    stack.receiver.answer = lambda _key, call, _body: 200 if call > 1 or gate.wait(60) else 500
    _lay_out(stack)
    (worker,) = stack.start("worker")
    stack.receiver.wait_for(lambda seen: len(seen.calls) == 2, 60, "both are in mid-call")
    worker.kill()
    gate.set()
    stack.did("killed the worker with -9 during the calls")
    seen = stack.counts()
    stack.check("G3", seen == {"sending": 2}, f"both calls were made under a claim: the ledger shows {told(seen)}")
    _repeat_or_review(stack, "alone", first_calls=1)


def after_answer(stack: Stack) -> None:
    """The receiver has answered; the outcome is recorded nowhere."""
    _kill_worker(stack, "answered", "after the receiver's answer, before finalize", {"sending": 2}, calls=2)
    _repeat_or_review(stack, "alone", first_calls=1)


def in_shutdown(stack: Stack) -> None:
    """The worker was told to stop, and the ledger knows it; the claims stand, and no call has ended."""
    _lay_out(stack)
    worker = stack.start_stopping("worker", "claimed", threads=2)
    worker.await_gap()
    worker.signal(signal.SIGTERM)
    stack.wait_until(lambda: stack.shutdown_noted(stack.made[0].delivery_key), "the worker's shutdown is on record")
    worker.kill()
    stack.did("told the worker to stop with two claims open, and killed it with -9 once the ledger knew")
    seen = stack.counts()
    stack.check("G3", (seen, stack.receiver.calls.total()) == ({"sending": 2}, 0), f"the ledger shows {told(seen)}")
    # Nobody serves `alone`, and no attempt may be burnt: the only one is still there.
    _repeat_or_review(stack, "worker", first_calls=0)
    classes = {attempt.error_class for attempt in stack.attempts() if attempt.outcome == "unknown"}
    stack.check("G7", classes == {"worker_shut_down"}, f"why they are unknown: {', '.join(sorted(classes))}")


def recorded_alone(stack: Stack) -> None:
    """An application held the reminders' rows, so the outcomes were recorded without them; then the worker died."""
    gate = Event()
    stack.receiver.answer = lambda _key, _call, _body: 200 if gate.wait(30) else 500
    _lay_out(stack)
    worker = stack.start_stopping("worker", "recorded", threads=2)
    stack.receiver.wait_for(lambda seen: len(seen.calls) == 2, 60, "both are in mid-call")
    with ExitStack() as held:
        for each in stack.made:
            held.enter_context(stack.cancelling(each, commit=False))
        gate.set()
        worker.await_gap()
        worker.kill()
        stack.did(
            "held both rows in an open transaction while the outcomes were recorded, killed the worker, then rolled back"
        )
    seen = stack.counts()
    stack.check(
        "G7", seen == {"sending": 2} and len(stack.attempts()) == 2, f"the ledger shows {told(seen)} and both attempts"
    )
    stack.scan()
    stack.did("waited for the claims' end, which is to carry the outcomes over")
    stack.ended({"delivered": 2})
    stack.check("G3", len(stack.attempts()) == 2, f"claims: {len(stack.attempts())} (must be 2, one for each)")
    stack.check_called_once_each(stack.made)


def before_ack(stack: Stack) -> None:
    """The outcomes are recorded; the messages are unacknowledged."""
    _kill_worker(stack, "recorded", "after finalize, before the acknowledgement", {"delivered": 2}, calls=2)
    unacknowledged = stack.unacknowledged()
    stack.check("G6", unacknowledged == 2, f"messages still unacknowledged: {unacknowledged} (must be 2)")
    stack.publish(stack.made)
    stack.did("put the same messages on the broker again, as it would itself after REMINDERS_VISIBILITY")
    stack.start("worker")
    stack.scan()
    stack.schedule(["last"])
    stack.ended({"delivered": 3})
    stack.check_called_once_each(stack.made)


def _lay_out(stack: Stack) -> None:
    """Both messages are on the broker, and no scanner runs: nothing is repaired before the drill has looked at it."""
    stack.never_deduplicates("/plain")
    scanner = stack.scan()
    stack.schedule(["deduplicates"])
    stack.schedule(["does not"], place="/plain")
    stack.wait_until(lambda: stack.queued() == 2, "both messages are on the broker")
    stack.wait_for_counts({"published": 2})
    scanner.kill()


def _kill_worker(stack: Stack, gap: str, where: str, expected: dict[str, int], *, calls: int) -> None:
    _lay_out(stack)
    worker = stack.start_stopping("worker", gap, threads=2)
    worker.await_gap()
    worker.kill()
    stack.did(f"killed the worker with -9 {where}")
    seen, called = stack.counts(), stack.receiver.calls.total()
    stack.check(
        "G3", (seen, called) == (expected, calls), f"the ledger shows {told(seen)}; {called} calls (must be {calls})"
    )


def _repeat_or_review(stack: Stack, line: str, *, first_calls: int) -> None:
    """The claims' end repeats the one under the same key, on the queue of `line`, and puts the other to review."""
    stack.start(line)
    stack.scan()
    stack.did(f"started a scanner and the line {line}, and waited for the claims' end ({stack.settings.claim:g} s)")
    stack.ended({"dead": 1, "delivered": 1})
    calls = [stack.calls(each) for each in stack.made]
    stack.check(
        "G4",
        calls == [first_calls + 1, first_calls],
        f"calls: {calls[0]} where it deduplicates, {calls[1]} where it does not",
    )
    stack.check_bodies()
    stack.check_in_review()
    recorded = sorted(attempt.outcome for attempt in stack.attempts())
    stack.check("G7", recorded == ["delivered", "unknown", "unknown"], f"attempts on record: {', '.join(recorded)}")


_ALL = ("G2", "G3", "G4", "G7")
DRILLS = (
    Drill(
        "kill-before-claim",
        "kill -9 after a worker took the message, before the claim",
        ("G2", "G3", "G4"),
        before_claim,
    ),
    Drill("kill-after-claim", "kill -9 after the claim's commit, before the call", _ALL, after_claim, QUICK_CLAIM),
    Drill("kill-in-call", "kill -9 during the call", _ALL, in_call, QUICK_CLAIM),
    Drill("kill-after-answer", "kill -9 after the provider's answer, before finalize", _ALL, after_answer, QUICK_CLAIM),
    Drill(
        "kill-in-shutdown",
        "kill -9 after the claim's commit, during a shutdown that the ledger knows of",
        _ALL,
        in_shutdown,
        {**QUICK_CLAIM, "REMINDERS_MAX_ATTEMPTS": "1"},
    ),
    Drill(
        "kill-recorded-alone",
        "kill -9 after the outcome was recorded alone, because a caller held the row",
        _ALL,
        recorded_alone,
        QUICK_CLAIM,
    ),
    Drill(
        "kill-before-ack",
        "kill -9 after finalize, before the acknowledgement",
        ("G2", "G3", "G4", "G6"),
        before_ack,
        long=False,
    ),
)

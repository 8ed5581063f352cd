"""Calls that outlive what was planned for them: a slow provider, a frozen worker, a reminder that kills its workers."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from datetime import datetime
from threading import Event

from reminders.operate.drills.drill import QUICK_CLAIM, Drill
from reminders.operate.drills.stack import Stack

INNOCENT = 31
LOST = "worker_lost"
"""The error class of an attempt whose worker did not report."""


def slow_provider(stack: Stack) -> None:
    """The receiver keeps the first calls for longer than a claim lasts."""
    gate = Event()
    stack.receiver.answer = lambda _key, call, _body: 200 if call > 1 or gate.wait(60) else 500
    stack.never_deduplicates("/plain")
    stack.ready()
    stack.start("retry")
    stack.schedule(["deduplicates"])
    stack.schedule(["does not"], place="/plain")
    stack.receiver.wait_for(lambda seen: len(seen.calls) == 2, 60, "both are in mid-call")
    stack.pass_time(stack.settings.claim + 1)
    gate.set()
    s = stack.settings
    stack.did(
        f"kept the first calls for {s.claim + 1:g} s; a claim lasts {s.claim:g} s, and a call {s.http_deadline:g} s"
    )
    stack.ended({"dead": 1, "delivered": 1})
    _check_no_overlap(stack)
    calls = [stack.calls(each) for each in stack.made]
    stack.check("G4", calls == [2, 1], f"calls: {calls[0]} where it deduplicates, {calls[1]} where it does not")
    stack.check_bodies()
    stack.check_in_review()


def frozen_worker(stack: Stack) -> None:
    """A worker is frozen in mid-call, its claims are put right without it, and then it wakes with two successes."""
    gate = Event()
    stack.receiver.answer = lambda _key, call, _body: 200 if call > 1 or gate.wait(60) else 500
    stack.never_deduplicates("/plain")
    stack.scan()
    stack.start("alone")
    stack.start_supervised("worker")
    (repeated,) = stack.schedule(["deduplicates"])
    stack.receiver.wait_for(lambda seen: len(seen.calls) == 1, 60, "its call begins")
    worker = stack.claimed_by(repeated.delivery_key)
    with stack.frozen(worker):
        gate.set()
        stack.did("froze the worker in mid-call; the receiver then answered 200")
        stack.wait_for_counts({"delivered": 1})
        stack.saw("the claim's end repeated it alone, and it was delivered")
    stack.did("woke the worker")
    _await_late_record(stack)
    stack.check("G4", stack.calls(repeated) == 2, f"calls: {stack.calls(repeated)} (must be 2, with one key)")
    stack.check_bodies()
    stack.ended({"delivered": 1})


def frozen_worker_review(stack: Stack) -> None:
    """The same where the destination does not deduplicate: its late success closes the review."""
    gate = Event()
    stack.receiver.answer = lambda _key, _call, _body: 200 if gate.wait(60) else 500
    stack.never_deduplicates("/plain")
    stack.scan()
    stack.start_supervised("worker")
    (once,) = stack.schedule(["does not"], place="/plain")
    stack.receiver.wait_for(lambda seen: len(seen.calls) == 1, 60, "its call begins")
    with stack.frozen(stack.claimed_by(once.delivery_key)):
        gate.set()
        stack.did("froze the worker in mid-call; the receiver then answered 200")
        stack.wait_for_counts({"dead": 1})
        stack.saw("the claim's end put it to review")
    stack.did("woke the worker")
    late = _await_late_record(stack)
    # Whether it still reads the answer, so long after its deadline, is a matter of where it was frozen.
    ended, state = ("delivered", "resolved") if late == "delivered" else ("dead", "open")
    stack.ended({ended: 1})
    states = [letter.state for letter in stack.letters()]
    stack.check(
        "G4", states == [state], f"after a late outcome {late} the review is {', '.join(states)} (must be {state})"
    )
    stack.check_called_once_each([once])


def _await_late_record(stack: Stack) -> str:
    """The outcome that the frozen worker reported in the end, in place of `worker lost`."""
    stack.wait_until(
        lambda: all(each.error_class != LOST for each in stack.attempts()), "the late outcome completes its record"
    )
    late = stack.attempts()[0]
    stack.check("G7", holds=True, text=f"the frozen worker's own outcome completed its record: {late.outcome}")
    return late.outcome


def poison(stack: Stack) -> None:
    """One reminder kills whoever calls for it; 31 others are in mid-call in the same process."""
    together = Event()

    def answer(key: str, call: int, body: dict[str, object]) -> int:
        if body["reference"] == "poison":
            if call == 1:
                stack.receiver.wait_for(lambda seen: len(seen.calls) == INNOCENT + 1, 60, "all are in mid-call")
            with suppress(ProcessLookupError):
                os.kill(stack.claimed_by(key), signal.SIGKILL)
            together.set()
            return 500
        return 200 if call > 1 or together.wait(60) else 500

    stack.receiver.answer = answer
    stack.scan()
    stack.start_supervised("worker", "alone")
    stack.schedule(["poison", *(f"innocent-{number}" for number in range(INNOCENT))])
    stack.did(f"scheduled one whose call kills its worker, among {INNOCENT} innocent ones in the same process")
    stack.ended({"dead": 1, "delivered": INNOCENT}, 150)
    deaths = stack.calls(stack.made[0])
    stack.saw(f"it killed {deaths} workers: one that it shared, the others alone")
    found = [f"{letter.reference}, {letter.kind}, {letter.state}" for letter in stack.letters()]
    stack.check(
        "G9",
        found == ["poison, pipeline, open"],
        f"dead letters: {'; '.join(found) or 'none'} (must be one, for the poison)",
    )
    calls = sorted({stack.calls(each) for each in stack.made[1:]})
    stack.check(
        "G4",
        calls == [2],
        f"calls for each innocent one: {', '.join(map(str, calls))} (must be 2, the first interrupted)",
    )
    stack.check_bodies()


def _check_no_overlap(stack: Stack) -> None:
    ended: dict[str, datetime | None] = {}
    for attempt in stack.attempts():
        before = ended.get(attempt.reference)
        if before is not None:
            stack.check("G3", before <= attempt.claimed_at, "the second claim came after the first call had ended")
        ended[attempt.reference] = attempt.ended_at


DRILLS = (
    Drill(
        "slow-provider",
        "a provider slower than the claim",
        ("G2", "G3", "G4"),
        slow_provider,
        {**QUICK_CLAIM, "REMINDERS_RETRY_DELAYS": "1s"},
    ),
    Drill(
        "frozen-worker",
        "a frozen worker that wakes after its claim; the destination deduplicates",
        ("G2", "G4", "G7"),
        frozen_worker,
        QUICK_CLAIM,
    ),
    Drill(
        "frozen-worker-review",
        "a frozen worker that wakes after its claim; the destination does not deduplicate",
        ("G2", "G4", "G7"),
        frozen_worker_review,
        QUICK_CLAIM,
    ),
    Drill(
        "poison",
        f"a reminder that kills its workers, among {INNOCENT} innocent ones",
        ("G2", "G4", "G9"),
        poison,
        {"REMINDERS_CLAIM": "13s", "REMINDERS_HTTP_DEADLINE": "6s", "REMINDERS_PROCESSES": "1"},
    ),
)

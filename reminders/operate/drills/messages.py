"""Messages that come twice, leave in part, or meet a receiver that asks for a pause."""

from __future__ import annotations

from math import ceil
from threading import Event

from reminders.operate.drills.drill import PATIENT_CALL, Drill
from reminders.operate.drills.scene import Scene
from reminders.operate.drills.scripted_receiver import Reply
from reminders.operate.drills.stack import Stack

ACCEPTED = 61
"""As many as the gap `refused` of `reminders.drill_process` lets through."""


def same_message(scene: Scene) -> None:
    """Twice more while the call is open, and once more after it has ended."""
    gate = Event()
    scene.receiver.answer = lambda _key, call, _body: (
        200 if call > 1 or gate.wait(0.8 * scene.settings.http_deadline) else 500
    )
    scene.ready()
    made = scene.schedule(["twice"])
    scene.receiver.wait_for(lambda seen: seen.calls.total() == 1, 60, "the first call begins")
    scene.publish(made * 2)
    scene.did("put its message on the broker twice more while the call was open")
    # Queued behind them: once it is called, they have been taken.
    scene.schedule(["behind", "behind it"])
    scene.receiver.wait_for(lambda seen: seen.calls.total() >= 3, 60, "what was queued behind them is called")
    gate.set()
    scene.wait_for_counts({"delivered": 3})
    scene.publish(made)
    scene.did("put it there once more after the outcome was recorded")
    scene.schedule(["last"])
    scene.ended({"delivered": 4})
    attempts = [each for each in scene.attempts() if each.reference == scene.reference("twice")]
    scene.saw(f"4 messages about it, {scene.calls(made[0])} call, {len(attempts)} recorded attempt")
    scene.check("G3", len(attempts) == 1, f"claims on the one key: {len(attempts)} (must be 1)")
    scene.check_called_once_each(scene.made)


def partial_publish(stack: Stack) -> None:
    """The broker takes 61 of 100; the scanner is killed; the others go out once their lease has ended."""
    made = stack.schedule([f"r{number}" for number in range(100)])
    scanner = stack.start_stopping("scanner", "refused")
    stack.tick()
    scanner.await_gap()
    stack.did(f"leased 100, let the broker take {ACCEPTED}, and killed the scanner with -9")
    scanner.kill()
    after = stack.counts()
    stack.saw(f"in the ledger: {after}")
    stack.check(
        "G10", after == {"leased": 100 - ACCEPTED, "published": ACCEPTED}, "only what was surely taken stays published"
    )
    # Without a scanner: one wakes itself, and on a slow machine the lease would end before anybody had looked.
    stack.start("worker")
    stack.receiver.wait_for(lambda seen: len(seen.calls) >= ACCEPTED, 60, "the messages that left are delivered")
    stack.wait_for_counts({"delivered": ACCEPTED, "leased": 100 - ACCEPTED})
    stack.scan()
    stack.did(f"started another scanner and waited out the lease of {stack.settings.lease:g} s")
    stack.ended({"delivered": 100})
    stack.check_called_once_each(made)


def retry_after(scene: Scene) -> None:
    """A 429 with `Retry-After`: nobody calls before the time that was asked for, and then it is delivered."""
    # Longer than a retry would wait by itself.
    asked_for = ceil(2 * scene.settings.retry_delays[0]) + 2

    def answer(_key: str, call: int, _body: object) -> int | Reply:
        return Reply(429, {"retry-after": str(asked_for)}) if call == 1 else 200

    scene.receiver.answer = answer
    scene.ready()
    scene.schedule(["asked to wait"])
    scene.receiver.wait_for(lambda seen: seen.calls.total() == 1, 60, "the first call")
    scene.did(f"answered the first call with 429 and Retry-After: {asked_for}")
    scene.receiver.wait_for(lambda seen: seen.calls.total() == 2, 60, "the second call")
    first, second = scene.receiver.calls_about(scene.reference("asked to wait"))
    scene.saw(f"the second call came {second - first:.1f} s after the first")
    scene.check("G9", second - first >= asked_for, f"no call within the {asked_for} s that were asked for")
    scene.ended({"delivered": 1})
    scene.check_bodies()


DRILLS = (
    Drill(
        "same-message",
        "one reminder's message comes four times",
        ("G2", "G3", "G4"),
        same_message,
        PATIENT_CALL,
        here=same_message,
        long=False,
    ),
    Drill(
        "partial-publish",
        "100 are leased, the broker takes 61, the scanner is killed",
        ("G2", "G4", "G10"),
        partial_publish,
        {"REMINDERS_LEASE": "3s"},
        long=False,
    ),
    Drill(
        "retry-after",
        "a receiver answers 429 with Retry-After",
        ("G2", "G4", "G9"),
        retry_after,
        {"REMINDERS_RETRY_DELAYS": "0.5s"},
        here=retry_after,
        long=False,
    ),
)

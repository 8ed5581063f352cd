"""Cancellation just before the claim, while it is asked for, while it is open, and after it."""

from __future__ import annotations

import time
from threading import Event

from reminders.ledger.scheduling import ScheduledReminder
from reminders.operate.drills.drill import Drill
from reminders.operate.drills.scene import Scene
from reminders.operate.drills.stack import Stack

AHEAD = 5.0
"""Seconds until what is cancelled would be due: enough for the cancellation to come first."""


def cancel_around_claim(stack: Stack) -> None:
    """Each with the answer that `cancel` must give, and what must follow from it."""
    gate = _script(stack)
    before = _cancel_before(stack)
    _while_asked_for(stack)
    _around(stack, gate, before)
    stack.ended({"cancelled": 3, "delivered": 2})


def cancel_here(scene: Scene) -> None:
    """The same without the one whose row is locked while its claim is asked for: that takes a worker of our own."""
    gate = _script(scene)
    scene.ready()
    _around(scene, gate, _cancel_before(scene))
    scene.ended({"cancelled": 2, "delivered": 2})


def _script(scene: Scene) -> Event:
    """The reminder `during` is kept in mid-call until the event is set, and then refused."""
    gate = Event()
    held = scene.reference("during")

    def answer(_key: str, _call: int, body: dict[str, object]) -> int:
        if body["reference"] != held:
            return 200
        gate.wait(0.8 * scene.settings.http_deadline)
        # Not taken up: without the cancellation, another attempt would follow.
        return 503

    scene.receiver.answer = answer
    return gate


def _while_asked_for(stack: Stack) -> None:
    (asked,) = stack.schedule(["while asked for"])
    stack.scan()
    stack.wait_until(lambda: stack.queued() == 1, "its message is on the broker")
    with stack.cancelling(asked) as answer:
        stack.start("worker")
        stack.wait_until(lambda: stack.queued() == stack.unacknowledged() == 0, "a worker has given its message up")
    stack.did("cancelled one in a transaction that was open while a worker asked for the claim")
    stack.check(
        "G5",
        (answer, stack.status(asked), stack.calls(asked)) == ("cancelled", "cancelled", 0),
        "while the claim is asked for: cancelled, and not called",
    )


def _cancel_before(scene: Scene) -> ScheduledReminder:
    """One that is due in a moment, and cancelled until then."""
    (before,) = scene.schedule(["before"], due_in=AHEAD)
    answer = scene.cancel(before)
    scene.did(f"cancelled one {AHEAD:g} s before it was due")
    scene.check("G5", answer == "cancelled", "before the claim, cancel answers cancelled")
    return before


def _around(scene: Scene, gate: Event, before: ScheduledReminder) -> None:
    during, after = scene.schedule(["during", "after"])
    _during(scene, gate, during)
    scene.wait_until(lambda: scene.status(after) == "delivered", "it is delivered")
    scene.check("G5", scene.cancel(after) == "too_late", "after the delivery, cancel answers too_late")
    # A retry of the one in mid-call would be due before this one, and so would everything else that must not come.
    wait = max(scene.settings.retry_delays[0] * 1.5, before.due_at.timestamp() + 0.5 - time.time())
    scene.schedule(["last"], due_in=wait)
    scene.wait_until(lambda: not scene.live(), "the last one is delivered")
    calls = sum(scene.calls(each) for each in scene.made if scene.status(each) == "cancelled")
    scene.check("G5", calls == 1, f"calls about cancelled ones: {calls} (must be 1, that in mid-call)")
    scene.check("G5", scene.calls(before) == 0, "the one that was cancelled before its claim was never called")


def _during(scene: Scene, gate: Event, during: ScheduledReminder) -> None:
    scene.receiver.wait_for(lambda seen: seen.calls[during.delivery_key] == 1, 60, "its call begins")
    answer = scene.cancel(during)
    gate.set()
    scene.did("cancelled one in mid-call, and then refused that call with 503")
    scene.wait_until(
        lambda: scene.status(during) == "cancelled" or scene.calls(during) > 1, "it is cancelled, or called again"
    )
    scene.check(
        "G5",
        (answer, scene.calls(during)) == ("requested", 1),
        "with a claim open: requested, then cancelled, after one call",
    )


DRILLS = (
    Drill(
        "cancel-around-claim",
        "cancellation just before, during and after the claim",
        ("G2", "G5"),
        cancel_around_claim,
        {"REMINDERS_RETRY_DELAYS": "1s"},
        here=cancel_here,
        long=False,
    ),
)

"""Cancellation just before the claim, while it is asked for, while it is open, and after it."""

from __future__ import annotations

from threading import Event

from reminders.operate.drills.drill import Drill
from reminders.operate.drills.scene import Scene


def cancel_around_claim(scene: Scene) -> None:
    """Each with the answer that `cancel` must give, and what must follow from it."""
    gate = Event()
    held = scene.reference("during")

    def answer(_key: str, _call: int, body: dict[str, object]) -> int:
        if body["reference"] != held:
            return 200
        gate.wait(8)
        # Not taken up: without the cancellation, another attempt would follow.
        return 503

    scene.receiver.answer = answer
    scene.ready()
    _before(scene)
    _while_asked_for(scene)
    _during(scene, gate)
    (after,) = scene.schedule(["after"])
    scene.receiver.wait_for(lambda seen: seen.calls[after.delivery_key] == 1, 60, "the last one is called")
    scene.wait_until(lambda: scene.counts().get("delivered") == 3, "it is delivered")
    scene.check("G5", scene.cancel(after) == "too_late", "after the delivery, cancel answers too_late")
    # A retry of the one in mid-call would have come by now: it would have been due before this one.
    scene.schedule(["last"], due_in=scene.settings.retry_delays[0] * 1.5)
    scene.ended({"cancelled": 3, "delivered": 4})


def _before(scene: Scene) -> None:
    (before,) = scene.schedule(["before"], due_in=1.0)
    scene.schedule(["behind before"], due_in=1.5)
    answer = scene.cancel(before)
    scene.did("cancelled one a second before it was due")
    scene.wait_until(lambda: scene.counts().get("delivered") == 1, "one that was due later is delivered")
    scene.check(
        "G5", (answer, scene.calls(before)) == ("cancelled", 0), "before the claim: cancelled, and never called"
    )


def _while_asked_for(scene: Scene) -> None:
    (asked,) = scene.schedule(["while asked for"], due_in=1.0)
    with scene.cancelling(asked) as answer:
        # The claim finds the row locked by a transaction that has not committed.
        scene.publish([asked, asked])
        scene.schedule(["behind while asked for"], due_in=1.5)
        scene.wait_until(lambda: scene.counts().get("delivered") == 2, "one that was due later is delivered")
    scene.did("cancelled one in a transaction that was open while its message was worked on")
    scene.publish([asked])
    scene.check(
        "G5",
        (answer, scene.calls(asked)) == ("cancelled", 0),
        "while the claim is asked for: cancelled, and never called",
    )


def _during(scene: Scene, gate: Event) -> None:
    (during,) = scene.schedule(["during"])
    scene.receiver.wait_for(lambda seen: seen.calls[during.delivery_key] == 1, 60, "its call begins")
    answer = scene.cancel(during)
    gate.set()
    scene.did("cancelled one in mid-call, and then refused that call with 503")
    scene.wait_until(
        lambda: scene.counts().get("cancelled") == 3 or scene.calls(during) > 1,
        "it ends as cancelled, or is called again",
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
        here=cancel_around_claim,
        long=False,
    ),
)

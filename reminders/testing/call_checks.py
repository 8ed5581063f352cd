"""Checks of `send`: what every behaviour of the far side comes to, and that one call is one call."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reminders.domain.outcomes import Outcome
from reminders.testing.calling import Called
from reminders.testing.far_side import Call, FarSide
from reminders.testing.rules import broken
from reminders.testing.scenes import KEEP_WAITING, OUTCOMES, Scene
from reminders.testing.subject import Subject

SENDS = tuple(OUTCOMES)
TEMPTING = (Scene.FAILS, Scene.IS_BUSY, Scene.BREAKS_AFTER_READING, Scene.TALKS_NONSENSE)
"""Scenes in which clients like to try again."""
ATTEMPTS = 3


class CallChecks(Subject):
    """See `ProviderContract`."""

    @pytest.mark.parametrize("scene", SENDS, ids=str)
    def test_send(self, far_side: FarSide, scene: Scene) -> None:
        provider = self._play(far_side, scene)
        deadline = self.deadline if scene in KEEP_WAITING else None
        called = self._send(provider, self._delivery(far_side, provider), deadline)
        self._must_be_an_outcome(called, f"where the far side {_words(scene)}")
        wanted, fits = OUTCOMES[scene]
        if not fits(called.value):
            broken("meaning", f"where the far side {_words(scene)}, it must be {wanted}, and is {called.value!r}")

    def test_send_where_the_destination_has_become_a_bad_one(self, far_side: FarSide) -> None:
        provider = self._play(far_side, Scene.ACCEPTS)
        for bad in (*self.bad_destinations, ""):
            delivery = self._delivery(far_side, provider, destination=bad)
            self._must_be_an_outcome(self._send(provider, delivery), f"for the destination {bad!r}")

    def test_send_when_no_time_is_left(self, far_side: FarSide) -> None:
        provider = self._play(far_side, Scene.ACCEPTS)
        for deadline in (0.0, -1.0, 0.000_001):
            called = self._send(provider, self._delivery(far_side, provider), deadline)
            self._must_be_an_outcome(called, f"with a deadline of {deadline:g} s")

    def test_send_makes_one_call(self, far_side: FarSide) -> None:
        if not self.calls_out:
            pytest.skip("this provider calls nobody")
        for scene in filter(self._can_play, TEMPTING):
            provider = self._play(far_side, scene)
            self._send(provider, self._delivery(far_side, provider))
            if len(far_side.calls) > 1:
                what = f"where the far side {_words(scene)}, one `send` made {len(far_side.calls)} calls"
                broken("one-call", f"{what}; retrying is the pipeline's")

    def test_attempts_send_the_same_body(self, far_side: FarSide) -> None:
        bodies = [call.body for call in self._attempts(far_side)]
        if len(set(bodies)) > 1:
            broken("same-request", f"attempts sent different bodies: {bodies[0][:200]!r} and {bodies[-1][:200]!r}")

    def test_attempts_carry_the_key(self, far_side: FarSide) -> None:
        if not self._provider(far_side).deduplicates:
            pytest.skip("the channel does not deduplicate")
        calls = self._attempts(far_side)
        delivery = self._delivery(far_side, self._provider(far_side))
        key = self.key_on_the_wire(delivery.delivery_key).encode()
        # With what stands directly around it: a key with the attempt's number appended is another key.
        pattern = re.compile(rb"[A-Za-z0-9_.-]*" + re.escape(key) + rb"[A-Za-z0-9_.-]*")
        found = [sorted(set(pattern.findall(call.raw))) for call in calls]
        if not all(found):
            broken("key", "a request does not hold the delivery key: its receiver cannot tell a repeat")
        if any(each != found[0] for each in found):
            broken("key", f"the key differs between attempts: {found[0]!r} and {found[-1]!r}")

    def _attempts(self, far_side: FarSide) -> list[Call]:
        """What the far side read of several attempts at one delivery."""
        if not self.calls_out:
            pytest.skip("this provider calls nobody")
        provider = self._play(far_side, Scene.ACCEPTS)
        delivery = self._delivery(far_side, provider)
        body = self._body(provider, delivery)
        for number in range(1, ATTEMPTS + 1):
            self._send(provider, replace(delivery, attempt=number), body=body)
        if len(far_side.calls) < ATTEMPTS:
            pytest.skip("not every attempt arrived whole")
        return list(far_side.calls)

    @staticmethod
    def _must_be_an_outcome(called: Called, when: str) -> None:
        if called.hung:
            broken("deadline", f"{when}, `send` had not returned after {called.seconds:.1f} s")
        if called.error is not None:
            broken("outcome", f"{when}, `send` raised {called.error!r}")
        if not isinstance(called.value, Outcome):
            broken("outcome", f"{when}, `send` returned {called.value!r}, which is no outcome")


def _words(scene: Scene) -> str:
    return scene.value.replace("-", " ")

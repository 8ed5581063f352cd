"""Checks that deliveries of one provider leave each other alone: each goes to its own destination, and none waits for another."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered
from reminders.pipeline.provider import Provider
from reminders.testing.calling import Called
from reminders.testing.far_side import FarSide
from reminders.testing.rules import broken
from reminders.testing.scenes import Scene
from reminders.testing.subject import UNHURRIED, Subject

_TRIES = 5
_GLANCE = 0.01
"""Seconds between two looks at whether the far side has read a call."""


class NeighbourChecks(Subject):
    """See `ProviderContract`."""

    def test_each_destination_receives_its_own(self, far_side: FarSide) -> None:
        provider = self._play(far_side, Scene.ACCEPTS)
        one, other = self._two(far_side, provider)
        for each in (one, other):
            # By a provider that knows no other destination, each must be visible: what is not cannot be told apart.
            self._play(far_side, Scene.ACCEPTS)
            self._send(self._provider(far_side), each)
            if not self._all_to(far_side, [each], one, other):
                pytest.skip("a request does not show where it goes; see `destination_on_the_wire`")
        far_side.play(Scene.ACCEPTS)
        wanted = [one, other, other, one]
        for each in wanted:
            self._send(provider, each)
        if not self._all_to(far_side, wanted, one, other):
            broken("own-destination", "of calls to two destinations in turn not each arrived at its own")

    def test_a_silent_call_keeps_no_other_waiting(self, far_side: FarSide) -> None:
        if not self.calls_out:
            pytest.skip("this provider calls nobody")
        for _ in range(_TRIES):
            provider = self._play(far_side, Scene.DOES_NOT_ANSWER)
            delivery = self._delivery(far_side, provider)
            silent: list[Called] = []
            thread = threading.Thread(
                target=lambda p=provider, d=delivery, s=silent: s.append(self._send(p, d)),
                name="kit-silent",
                daemon=True,
            )
            thread.start()
            if not self._has_read(far_side):
                pytest.skip("the far side has read no call")
            far_side.play(Scene.ACCEPTS)
            quick = self._send(provider, replace(delivery, delivery_key="dk_kit_of_the_quick_one"))
            # Else the far side had not yet begun to be silent when the scene was changed.
            if not (silent and isinstance(silent[0].value, Delivered)):
                break
        else:
            pytest.skip("the far side is not silent")
        if quick.hung or silent:
            broken("no-waiting", f"while one call got no answer, another one waited for {quick.seconds:.1f} s")

    def _has_read(self, far_side: FarSide) -> bool:
        end, glance = time.monotonic() + UNHURRIED, threading.Event()
        while not far_side.calls and time.monotonic() < end:
            glance.wait(_GLANCE)
        return bool(far_side.calls)

    def _two(self, far_side: FarSide, provider: Provider) -> tuple[Delivery, Delivery]:
        """Deliveries to two destinations of the far side."""
        if not self.calls_out:
            pytest.skip("this provider calls nobody")
        one = self._delivery(far_side, provider)
        other = self.other_destination(far_side)
        if other is None:
            pytest.skip("there is no second destination; write `other_destination`")
        return one, replace(one, destination=other, delivery_key="dk_kit_of_the_other_place")

    def _all_to(self, far_side: FarSide, wanted: list[Delivery], *known: Delivery) -> bool:
        """Whether the calls, in their order, show the destinations of `wanted`, and no other of `known`."""
        places = {each.destination: self.destination_on_the_wire(each.destination).encode() for each in known}
        return len(far_side.calls) == len(wanted) and all(
            [place for place, text in places.items() if text in call.raw] == [each.destination]
            for call, each in zip(far_side.calls, wanted, strict=True)
        )

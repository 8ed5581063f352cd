"""Checks of `render`: the same bytes, whatever changes around it."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from reminders.domain.delivery import Delivery
from reminders.testing.far_side import FarSide
from reminders.testing.other_process import render_elsewhere
from reminders.testing.rules import broken
from reminders.testing.sample import turned_round
from reminders.testing.subject import Subject

LATER = 400 * 86400 + 11 * 3600 + 17 * 60 + 13.0
"""Seconds after which every part of a date and a time is another one."""
FAR_EAST = "Pacific/Kiritimati"
_OF_THE_ATTEMPT: dict[str, list[Any]] = {
    "attempt": [2, 3, 100],
    "claimed_at": [datetime(2030, 4, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)],
    "uncertain_since": [datetime(2030, 4, 1, tzinfo=UTC)],
}


class BodyChecks(Subject):
    """See `ProviderContract`."""

    def test_render(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        delivery = self._delivery(far_side, provider)
        before = copy.deepcopy(delivery)
        try:
            first, second = provider.render(delivery), provider.render(delivery)
            other = self._provider(far_side).render(copy.deepcopy(before))
        except Exception as error:  # noqa: BLE001
            broken("render", f"for the sample delivery it raised {error!r}")
        if type(first) is not bytes:
            broken("render", f"it returned {type(first).__name__}, not bytes")
        if first != second or first != other:
            broken("render", f"twice the same delivery, two bodies: {_difference(first, second, other)}")
        if delivery != before:
            broken("render", "it changed the delivery's data")

    def test_render_does_not_depend_on_the_attempt(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        delivery = self._delivery(far_side, provider)
        body = self._body(provider, delivery)
        if body != self._body(provider, delivery):
            pytest.skip("it is not even the same for one attempt")
        for field in (each.name for each in fields(Delivery) if each.name in _OF_THE_ATTEMPT):
            for value in _OF_THE_ATTEMPT[field]:
                other = self._body(provider, replace(delivery, **{field: value}))
                if other != body:
                    broken("render-attempt", f"with another `{field}` the body is another: {_difference(body, other)}")

    def test_render_does_not_depend_on_the_clock(self, far_side: FarSide) -> None:
        now = self._elsewhere(far_side)
        for words, other in (
            ("a year later", self._elsewhere(far_side, later=LATER)),
            (f"in zone {FAR_EAST}", self._elsewhere(far_side, zone=FAR_EAST)),
        ):
            if now != other and now == self._elsewhere(far_side):
                broken("render-clock", f"{words} the body is another: {_difference(now, other)}")

    def test_render_does_not_depend_on_the_hash_seed(self, far_side: FarSide) -> None:
        first = self._elsewhere(far_side, hash_seed=1)
        for seed in (2, 3):
            other = self._elsewhere(far_side, hash_seed=seed)
            if first != other and first == self._elsewhere(far_side, hash_seed=1):
                broken("render-hash-seed", f"with another hash seed the body is another: {_difference(first, other)}")

    def test_render_does_not_depend_on_the_order_of_keys(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        delivery = self._delivery(far_side, provider)
        turned = replace(delivery, data=turned_round(delivery.data))
        body, other = self._body(provider, delivery), self._body(provider, turned)
        if body != other and body == self._body(provider, delivery):
            broken("render-key-order", f"with the keys in another order it is another: {_difference(body, other)}")

    def test_render_knows_every_body_format(self, far_side: FarSide) -> None:
        provider = self._provider(far_side)
        newest = provider.body_format
        if type(newest) is not int:
            pytest.skip("body_format is no number")
        delivery = self._delivery(far_side, provider)
        for number in range(1, newest):
            try:
                body: object = provider.render(replace(delivery, body_format=number))
            except Exception as error:  # noqa: BLE001
                broken("formats", f"body format {number}, which earlier releases pinned, is not rendered: {error!r}")
            if not isinstance(body, bytes):
                broken("formats", f"body format {number} is rendered as {type(body).__name__}")
        try:
            provider.render(replace(delivery, body_format=newest + 1))
        except Exception:  # noqa: BLE001 (any will do)
            return
        broken("formats", f"body format {newest + 1}, which only a later release can know, is rendered all the same")

    def _elsewhere(
        self, far_side: FarSide, *, hash_seed: int = 0, zone: str = "UTC", later: float = 0.0
    ) -> bytes | None:
        delivery = self._delivery(far_side, self._provider(far_side))
        found = render_elsewhere(
            self._factory(), self._environ(far_side), [delivery], hash_seed=hash_seed, zone=zone, later=later
        )
        return found.bodies[0]


def _difference(*bodies: bytes | None) -> str:
    """Where the bodies part, with some bytes around."""
    plain = [each or b"" for each in bodies]
    shortest = min(len(each) for each in plain)
    at = next((i for i in range(shortest) if len({each[i] for each in plain}) > 1), shortest)
    return " / ".join(repr(each[max(at - 20, 0) : at + 20]) for each in plain)

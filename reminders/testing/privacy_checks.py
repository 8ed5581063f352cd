"""Checks of what comes to light: in outcomes, in the log, in a `repr`."""

from __future__ import annotations

import logging
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from reminders.domain.outcomes import Blocked, Delivered, Outcome
from reminders.testing.far_side import FarSide
from reminders.testing.rules import broken
from reminders.testing.sample import EMAIL, PHONE
from reminders.testing.scenes import Scene
from reminders.testing.subject import Subject

LONGEST = 500
"""Characters of a text in an outcome."""
PLAIN = (Scene.ACCEPTS, Scene.FAILS, Scene.REFUSES_CONNECTIONS, Scene.BREAKS_AFTER_READING, Scene.TALKS_NONSENSE)
"""Scenes in which the far side repeats nothing: whatever private there is comes from the provider."""


class PrivacyChecks(Subject):
    """See `ProviderContract`."""

    def test_outcomes_are_well_formed(self, far_side: FarSide) -> None:
        for scene in filter(self._can_play, (*PLAIN, Scene.REFUSES, Scene.IS_BUSY)):
            outcome = self._outcome(far_side, scene)
            if outcome is not None:
                _examine(outcome)

    def test_nothing_private_comes_to_light(self, far_side: FarSide, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        for scene in filter(self._can_play, PLAIN):
            caplog.clear()
            provider = self._play(far_side, scene)
            deliveries = [self._delivery(far_side, provider)]
            deliveries += [self._delivery(far_side, provider, destination=bad) for bad in self.bad_destinations]
            for delivery in deliveries:
                called = self._send(provider, delivery)
                private = {each for each in self._private(far_side, delivery) if len(each) >= 8}
                shown = {"the log": caplog.text, "repr(provider)": repr(provider), "the outcome": repr(called.value)}
                for place, text in shown.items():
                    if found := next((each for each in private if each in text), None):
                        broken(
                            "private", f"{place} holds {found!r}, where the far side {scene.value.replace('-', ' ')}"
                        )

    def test_what_the_far_side_says_is_redacted(self, far_side: FarSide, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self._outcome(far_side, Scene.ACCEPTS)
        by_itself = caplog.text  # another check's
        outcome = self._outcome(far_side, Scene.REFUSES)
        for place, text in {"the outcome": repr(outcome), "the log": caplog.text.removeprefix(by_itself)}.items():
            for found in {EMAIL, PHONE, *self._secrets(far_side)}:
                if found in text and found not in by_itself:
                    broken("redacted", f"the far side repeated {found!r}, and {place} holds it")

    def _outcome(self, far_side: FarSide, scene: Scene) -> Outcome | None:
        provider = self._play(far_side, scene)
        called = self._send(provider, self._delivery(far_side, provider))
        return called.value if isinstance(called.value, Outcome) else None


def _examine(outcome: Outcome) -> None:
    """Fail unless every field has the documented type, and every text fits."""
    values: dict[str, Any] = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    for name, value in values.items():
        optional = name in {"reference", "status_code"} or (name == "after" and not isinstance(outcome, Blocked))
        if value is None and optional:
            continue
        wanted = _TYPES.get(name, bool)
        if type(value) is not wanted:
            broken("form", f"{outcome.name}: `{name}` is {value!r}, and must be {wanted.__name__}")
        if isinstance(value, str):
            _examine_text(outcome, name, value)
    if isinstance(outcome, Blocked) and outcome.scope not in {"destination", "provider"}:
        broken("form", f"blocked: `scope` is {outcome.scope!r}, and must be 'destination' or 'provider'")
    if not isinstance(outcome, Delivered) and not outcome.error_class:
        broken("form", f"{outcome.name}: `error_class` is empty; operators look for it")


def _examine_text(outcome: Outcome, name: str, value: str) -> None:
    if len(value) > LONGEST:
        broken("form", f"{outcome.name}: `{name}` has {len(value)} characters; at most {LONGEST} are kept")
    if "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        broken("form", f"{outcome.name}: `{name}` holds NUL or broken text, which Postgres cannot store; use `redact`")


_TYPES: dict[str, type] = {
    "reference": str, "status_code": int, "reason": str, "error_class": str, "after": timedelta, "scope": str,
}  # fmt: skip

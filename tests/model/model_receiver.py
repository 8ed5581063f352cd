"""The far side of every destination: what it was sent, and what took effect there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown

WINDOW = 7 * 86400.0
"""Seconds for which a receiver that deduplicates remembers a key."""


@dataclass(frozen=True)
class Answer:
    """What one call meets: whether it takes effect, and what the caller learns."""

    outcome: Outcome
    applied: bool


DELIVERED = Answer(Delivered(reference="r"), True)
AGAIN = Answer(Retry("busy", "later", status_code=503), False)
GATEWAY = Answer(Unknown("gateway", "no answer from behind", status_code=502), False)
GATEWAY_APPLIED = Answer(Unknown("gateway", "no answer from behind", status_code=502), True)
REFUSED = Answer(Rejected("bad_request", "not like this", status_code=400), False)
GONE = Answer(Rejected("gone", "no such place", status_code=410, gone=True), False)
"""Nothing is to be sent there any more."""
UNKNOWN = Answer(Unknown("reset", "reset after it was sent"), False)
UNKNOWN_APPLIED = Answer(Unknown("reset", "reset after it was sent"), True)
TIMED_OUT = Answer(Unknown("timeout", "no answer in time", timed_out=True), False)
TIMED_OUT_APPLIED = Answer(Unknown("timeout", "no answer in time", timed_out=True), True)


def wait(seconds: float) -> Answer:
    """The far side asks for a pause."""
    return Answer(Blocked("destination", timedelta(seconds=seconds), "http_429", "slow down", 429), False)


def refuse(seconds: float) -> Answer:
    """The far side refuses the credentials with which all of a tenant's places are reached."""
    return Answer(Blocked("provider", timedelta(seconds=seconds), "http_401", "who are you", 401), False)


WAIT, WAIT_LONG, UNAUTHORISED = wait(90), wait(20 * 3600), refuse(90)
ANSWERS = (
    DELIVERED, AGAIN, REFUSED, UNKNOWN_APPLIED, TIMED_OUT_APPLIED, UNKNOWN, TIMED_OUT, GATEWAY, GATEWAY_APPLIED, WAIT, WAIT_LONG,
    UNAUTHORISED,
)  # fmt: skip


@dataclass
class ModelReceiver:
    """Applies what it gets; a place that deduplicates applies a key once as long as it remembers it."""

    applied: dict[str, list[datetime]] = field(default_factory=dict)
    calls: int = 0

    def receive(self, key: str, now: datetime, answer: Answer, *, deduplicates: bool) -> None:
        self.calls += 1
        before = self.applied.setdefault(key, [])
        remembers = deduplicates and before and now - before[0] < timedelta(seconds=WINDOW)
        if answer.applied and not remembers:
            before.append(now)

    def effects(self, key: str) -> int:
        return len(self.applied.get(key, ()))

    def repeated(self) -> Iterator[str]:
        """Keys that took effect twice."""
        return (key for key, times in self.applied.items() if len(times) > 1)

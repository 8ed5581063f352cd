"""What the stages need of the world outside, as protocols; `bootstrap` hands in the concrete parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Outcome


class Provider(Protocol):
    """One channel's way out."""

    channel: str
    deduplicates: bool
    """Whether destinations of this channel are expected to apply one delivery key once (can be set per destination)."""
    body_format: int
    """The rendering rule that a first claim pins; `render` must keep supporting every earlier number."""

    def check_destination(self, destination: str) -> None:
        """Raise `InvalidInput("destination", ...)` unless the channel can deliver there."""

    def render(self, delivery: Delivery) -> bytes:
        """The body for every attempt at this delivery: a pure function of it, without `attempt` and the clock."""

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:
        """Make the one call. Returns within `deadline` seconds whatever the far side does, and never raises."""


class Message(Protocol):
    """A delivery message to be put on the broker."""

    reminder_id: UUID
    delivery_key: str
    route: str


class Publisher(Protocol):
    """Puts delivery messages on the broker."""

    def publish(self, messages: Sequence[Message]) -> int:
        """Send them in one pipeline, in order; return how many the broker surely accepted (a prefix).

        Never raises for a broker that is away: returns 0.
        """


class Gauge(Protocol):
    """Reads how many delivery messages the broker holds."""

    def in_flight(self) -> int | None:
        """Messages queued on the delivery queues, plus unacknowledged ones as far as live workers can hold them.

        None when the broker cannot be asked.
        """

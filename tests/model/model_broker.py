"""A broker that does what Redis may do to a message: take it, take it and say that it did not, repeat it, lose it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reminders.pipeline.ports import Message, OnBroker


@dataclass(frozen=True)
class Weather:
    """How the broker treats one batch: it takes `taken` of its messages (None: all), and owns up to `admitted`."""

    taken: int | None = None
    admitted: int | None = None


FAIR = Weather()


@dataclass
class ModelBroker:
    """Queued messages, and those taken and not acknowledged."""

    queued: list[Message] = field(default_factory=list)
    unacknowledged: list[Message] = field(default_factory=list)

    def publish(self, messages: Sequence[Message], weather: Weather) -> int:
        taken = list(messages)[: weather.taken]
        self.queued += taken
        return len(taken) if weather.admitted is None else min(weather.admitted, len(taken))

    def in_flight(self) -> OnBroker:
        return OnBroker(len(self.queued), len(self.unacknowledged))

    def take(self, number: int) -> Message:
        message = self.queued.pop(number % len(self.queued))
        self.unacknowledged.append(message)
        return message

    def acknowledge(self, message: Message) -> None:
        if message in self.unacknowledged:
            self.unacknowledged.remove(message)

    def redeliver(self, number: int) -> None:
        """The visibility timeout has passed for one of them."""
        self.queued.append(self.unacknowledged.pop(number % len(self.unacknowledged)))

    def flush(self) -> None:
        self.queued.clear()
        self.unacknowledged.clear()

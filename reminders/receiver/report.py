"""What the receiver tells of itself: one event for each delivery, and counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from reminders.receiver.message import Message
from reminders.receiver.store import Verdict


@dataclass(frozen=True, slots=True)
class Handled:
    """One delivery and how it was answered, at `at` (UTC).

    `message` is None unless the signature was good; `verdict` is None for a delivery that was refused, with `reason`.
    """

    at: datetime
    status: int
    message: Message | None = None
    verdict: Verdict | None = None
    effect_number: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Deliveries since the receiver started. Each is in exactly one of the last four counts."""

    received: int
    effects: int
    repeats: int
    conflicts: int
    refused: int

    def as_json(self) -> dict[str, int]:
        return {"v": 1, **asdict(self)}


class Tally:
    """Counts deliveries by what became of them. One thread adds, any thread reads."""

    def __init__(self) -> None:
        self._counts: dict[Verdict | None, int] = dict.fromkeys((*Verdict, None), 0)

    def add(self, verdict: Verdict | None) -> None:
        self._counts[verdict] += 1

    def report(self) -> Report:
        counts = self._counts.copy()
        return Report(
            received=sum(counts.values()),
            effects=counts[Verdict.APPLIED],
            repeats=counts[Verdict.REPEAT],
            conflicts=counts[Verdict.CONFLICT],
            refused=counts[None],
        )

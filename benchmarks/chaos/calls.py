"""What the receiver notes of a call, one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ONCE = "once"
"""The receiver that applies each delivery key once."""
EACH = "each"
"""The receiver that acts on every call."""


@dataclass(slots=True)
class Call:
    """One request, from when it was read whole until it was answered or its connection had ended.

    `start` and `end` are seconds of the machine's monotonic clock.
    """

    key: str
    reminder: str
    reference: str
    place: str
    attempt: int
    """The caller's number of the claim."""
    body: str
    """Short hash of it."""
    start: float
    end: float
    manner: str
    status: int | None
    """None if it was not answered, by intent or because the caller had gone."""
    effect: bool
    """Whether the receiver acted on it."""


def write(calls: Iterable[Call]) -> str:
    return "".join(f"{json.dumps(asdict(call))}\n" for call in calls)


def read(path: Path) -> list[Call]:
    """All calls, in the order of their starts."""
    return sorted((Call(**json.loads(line)) for line in path.read_text().splitlines()), key=lambda call: call.start)

"""What a drill is, and the record of one run of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from reminders.operate.drills.scene import Scene
    from reminders.operate.drills.stack import Stack

QUICK_CLAIM: Mapping[str, str] = {"REMINDERS_CLAIM": "13s", "REMINDERS_HTTP_DEADLINE": "6s"}
"""Settings for drills that wait for a claim's end. A call needs its deadline and five seconds more inside the claim; the
rest is for a machine that does other things too."""

PATIENT_CALL: Mapping[str, str] = {"REMINDERS_HTTP_DEADLINE": "20s", "REMINDERS_GRACE": "30s"}
"""Settings for drills that do something while a call is open, however slow the machine is."""


class Broken(Exception):
    """A guarantee does not hold, or what must happen did not happen in time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a run: what was done, what was seen, or an invariant that held (`guarantee` names it)."""

    kind: Literal["did", "saw", "held"]
    text: str
    guarantee: str | None = None


@dataclass(frozen=True, slots=True)
class Drill:
    """One rehearsal. `settings` are those it shortens, as environment variables; the others are the shipped ones.

    `here` is the same rehearsal where it is safe on an installation that runs already.
    """

    name: str
    about: str
    guarantees: tuple[str, ...]
    rehearse: Callable[[Stack], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    here: Callable[[Scene], None] | None = None
    long: bool = True
    """Takes more than a few seconds."""


@dataclass
class Record:
    """One run. `broken` says what did not hold; None once it ended well. `logs` has the last lines of each process then.

    `settings` are those that differ from the shipped ones; None where an installation's own hold.
    """

    drill: Drill
    settings: Mapping[str, str] | None
    on_step: Callable[[Step], None] = lambda _step: None
    steps: list[Step] = field(default_factory=list)
    broken: str | None = None
    logs: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.on_step(step)

    def end(self, broken: str | None) -> None:
        self.broken = broken
        self.seconds = time.monotonic() - self._started

"""What follows from an outcome: one pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown

OnUnknown = Literal["repeat", "look_up", "review"]
"""What follows an unknown outcome, the less strict first: the same again; asking the far side for the key; a person."""
LetterKind = Literal["destination", "unknown", "pipeline"]
SHORTEST_HOLD, LONGEST_HOLD = 1.0, 86400.0
"""Seconds that a hold lasts at least and at most, whatever asks for it."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The reminder is delivered; nothing follows."""


@dataclass(frozen=True, slots=True)
class Park:
    """Wait in the ledger for `seconds`, then try again over queue `route`."""

    seconds: float
    route: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait in the ledger until the hold ends, `seconds` from now; the attempt is not counted.

    `left` is for how many seconds from now all waiting together may last.
    """

    seconds: float
    left: float


@dataclass(frozen=True, slots=True)
class Bury:
    """The reminder becomes a dead letter of this kind, for a person to look at."""

    kind: LetterKind


Decision = Deliver | Park | Wait | Bury


def decide(
    outcome: Outcome,
    *,
    attempts_used: int,
    uncertain: bool,
    on_unknown: OnUnknown,
    max_attempts: int,
    delays: Sequence[float],
    waited: float,
    max_wait: float,
    jitter: float,
) -> Decision:
    """Decide after an attempt.

    `attempts_used` counts this attempt (`Blocked` does not look at it); `uncertain` is true when an earlier attempt's outcome is unknown; `waited`
    is the seconds since the first attempt of the present budget; `jitter` is a random number in [0, 1).
    """
    if isinstance(outcome, Delivered):
        return Deliver()
    uncertain = uncertain or isinstance(outcome, Unknown)
    if uncertain and on_unknown == "review":
        return Bury("unknown")
    letter: LetterKind = "unknown" if uncertain else "destination"
    if isinstance(outcome, Blocked):
        seconds = hold_seconds(outcome)
        left = max_wait - waited
        return Bury(letter) if seconds > left else Wait(seconds, left)
    if isinstance(outcome, Rejected) or attempts_used >= max_attempts:
        return Bury(letter)
    seconds = next_delay(attempts_used, delays, jitter)
    if isinstance(outcome, Retry) and outcome.after is not None:
        seconds = max(seconds, outcome.after.total_seconds())
    if not waited + seconds <= max_wait:  # nor is a delay that is no number
        return Bury(letter)
    return Park(seconds, "retry" if outcome.timed_out else "deliver")


def as_known(outcome: Outcome, *, uncertain: bool) -> Outcome:
    """The outcome in the light of what the ledger knows of the delivery.

    A conflict is no refusal while an earlier attempt, being still under way, may have caused it.
    """
    if uncertain and isinstance(outcome, Rejected) and outcome.may_be_our_own:
        return Retry(outcome.error_class, outcome.reason, outcome.status_code)
    return outcome


def hold_seconds(outcome: Blocked) -> float:
    """How long the hold lasts that the outcome asks for."""
    return min(max(outcome.after.total_seconds(), SHORTEST_HOLD), LONGEST_HOLD)


def next_delay(attempts_used: int, delays: Sequence[float], jitter: float) -> float:
    """Seconds before the next attempt: the table's entry (its last one ever after), spread by up to a fifth."""
    return delays[min(attempts_used, len(delays)) - 1] * (0.9 + 0.2 * jitter)

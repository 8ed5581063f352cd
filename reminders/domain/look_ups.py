"""What asking the far side for a delivery key comes to, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reminders.domain.outcomes import Delivered, Outcome, Retry, Unknown
from reminders.domain.retry_policy import Bury, Decision, Deliver, Park, next_delay


@dataclass(frozen=True, slots=True)
class Found:
    """The far side has the key: an earlier attempt took effect. `reference` is its own name for it, if it gave one."""

    reference: str | None = None
    status_code: int | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The far side decisively does not have the key and will not: no earlier attempt took effect, nor can one still."""

    reason: str = ""
    status_code: int | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """No answer, or none that decides. `final` says that asking again would not help: a person must look."""

    error_class: str
    reason: str
    status_code: int | None = None
    timed_out: bool = False
    final: bool = False


LookUp = Found | Absent | Undecided


def as_outcome(answer: LookUp) -> Outcome:
    """How the look-up stands on record among the attempts."""
    match answer:
        case Found():
            return Delivered(answer.reference, answer.status_code)
        case Absent():
            return Retry("looked_up_absent", answer.reason or "the far side does not have the key", answer.status_code)
        case Undecided():
            return Unknown(answer.error_class, answer.reason, answer.status_code, answer.timed_out)


def decide_after_look_up(
    answer: LookUp,
    *,
    attempts_used: int,
    max_attempts: int,
    delays: Sequence[float],
    waited: float,
    max_wait: float,
    jitter: float,
) -> Decision:
    """Decide after a look-up; the numbers are those of `reminders.domain.retry_policy.decide`, this one counted.

    What is certainly not there may be sent again at once, within the same budget.
    """
    match answer:
        case Found():
            return Deliver()
        case Absent():
            return Bury("destination") if attempts_used >= max_attempts or waited > max_wait else Park(0.0, "deliver")
        case Undecided():
            seconds = next_delay(attempts_used, delays, jitter)
            if answer.final or attempts_used >= max_attempts or waited + seconds > max_wait:
                return Bury("unknown")
            return Park(seconds, "retry" if answer.timed_out else "deliver")

"""Whether what a call came to counts against its destination."""

from __future__ import annotations

from reminders.domain.outcomes import Blocked, Delivered, Outcome


def counts_as_failure(outcome: Outcome) -> bool:
    """Whether a call that came to this has failed for the destination.

    Not so where it asks for a pause, where our own credentials were refused, or where the outcome is `blameless`.
    """
    return not isinstance(outcome, Delivered | Blocked) and not outcome.blameless

"""Whether what a call came to counts against its destination."""

from __future__ import annotations

from dataclasses import replace

from reminders.domain.outcomes import Blocked, Delivered, Outcome, Retry, Unknown


def counts_as_failure(outcome: Outcome) -> bool:
    """Whether a call that came to this has failed for the destination.

    Not so where it asks for a pause, where our own credentials were refused, or where the outcome is `blameless`.
    """
    return not isinstance(outcome, Delivered | Blocked) and not outcome.blameless


def through_relay(outcome: Outcome) -> Outcome:
    """What a call to a gateway or mail server came to: that it fails, or cannot be reached, says nothing against who lies beyond.

    A refusal does: it is about the message and its recipient.
    """
    return replace(outcome, blameless=True) if isinstance(outcome, Retry | Unknown) else outcome

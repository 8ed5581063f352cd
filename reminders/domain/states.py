"""Every move that a status can make, as data: from, to, under which guard, by whom.

The moves themselves are guarded statements of the ledger; a test compares what Postgres saw with these tables, and the
documentation shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ReminderStatus = Literal[
    "pending",
    "leased",
    "published",
    "sending",
    "held",
    "delivered",
    "suppressed",
    "cancelled",
    "expired",
    "shadowed",
    "dead",
]
"""A reminder's status as `reminders_v1` shows it: that of its row in `due` while it lives, of its own row afterwards."""
DeliveryStatus = Literal[
    "sending", "retrying", "delivered", "unknown", "dead", "cancelled", "expired", "superseded", "suppressed"
]

LIVE: frozenset[ReminderStatus] = frozenset({"pending", "leased", "published", "sending", "held"})
TERMINAL: frozenset[ReminderStatus] = frozenset({"delivered", "suppressed", "cancelled", "expired", "shadowed", "dead"})
"""Ends by themselves. A person's `reschedule`, `release`, `redrive`, `discard`, `resolve` or `cancel`, an edit of its series, or a success that is reported late, leads out."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One move. `before` is None where the row comes into being."""

    before: str | None
    after: str
    guard: str
    who: str


def _moves(*rows: tuple[str | None, str, str, str]) -> tuple[Transition, ...]:
    return tuple(Transition(*row) for row in rows)


REMINDER_TRANSITIONS: tuple[Transition, ...] = _moves(
    (None, "pending", "no reminder has this identity", "schedule; plan"),
    ("pending", "leased", "`wake_at` has passed and nobody holds the row", "scan: lease"),
    ("leased", "leased", "the lease has ended", "scan: lease"),
    ("leased", "published", "still leased under the scan's own token", "scan: publish"),
    ("published", "leased", "its deadline has passed, or the broker did not surely take it", "scan: lease, take back"),
    ("leased", "sending", "the message's key is current, not expired, nobody holds the row", "deliver: claim"),
    ("published", "sending", "the message's key is current, not expired, nobody holds the row", "deliver: claim"),
    ("sending", "delivered", "the claim stands and the outcome is `Delivered`, or an earlier attempt's success came late", "deliver: finalize; repair"),
    ("sending", "pending", "the claim stands and the outcome allows another attempt; or it was not called, or was told to wait; or the claim ended and the destination deduplicates or can be asked", "deliver: finalize, give back; repair"),
    ("sending", "dead", "the claim stands or has ended, and no attempt may follow", "deliver: finalize, give back; repair"),
    ("sending", "cancelled", "cancellation was requested, nothing was delivered, nothing is unknown", "deliver: finalize, give back; repair"),
    ("pending", "expired", "`expires_at` has passed, no earlier attempt is unknown", "scan: give up"),
    ("leased", "expired", "`expires_at` has passed, no earlier attempt is unknown", "scan: give up; deliver: refused claim"),
    ("published", "expired", "`expires_at` has passed, no earlier attempt is unknown", "scan: give up; deliver: refused claim"),
    ("pending", "suppressed", "it has waited too long, and a suppression or a preference forbids it, no earlier attempt is unknown", "scan: give up"),
    ("leased", "suppressed", "a suppression or a preference forbids it, no earlier attempt is unknown", "scan: give up; deliver: refused claim"),
    ("published", "suppressed", "a suppression or a preference forbids it, no earlier attempt is unknown", "scan: give up; deliver: refused claim"),
    ("leased", "dead", "its destination is disabled; or an earlier attempt is unknown, and `expires_at` or the deduplication window has passed, or it was cancelled or suppressed, or its tenant is in shadow; or it has waited too long; or the ledger was restored, and it may have been sent", "scan: give up; deliver: refused claim; cancel; quarantine"),
    ("published", "dead", "its destination is disabled; or an earlier attempt is unknown, and `expires_at` or the deduplication window has passed, or it was cancelled or suppressed, or its tenant is in shadow; or it has waited too long; or the ledger was restored, and it may have been sent", "scan: give up; deliver: refused claim; cancel; quarantine"),
    ("leased", "shadowed", "its tenant is in shadow, and it would be called for, or would be a dead letter; no earlier attempt is unknown", "deliver: shadow, refused claim; scan: give up"),
    ("published", "shadowed", "its tenant is in shadow, and it would be called for, or would be a dead letter; no earlier attempt is unknown", "deliver: shadow, refused claim; scan: give up"),
    ("pending", "shadowed", "its tenant is in shadow, and it has waited too long; no earlier attempt is unknown", "scan: give up"),
    ("shadowed", "pending", "its tenant is not in shadow, and it has not expired; or rescheduled", "shadow release; reschedule"),
    ("shadowed", "cancelled", "nothing was sent", "cancel"),
    ("pending", "delivered", "`expires_at` has passed, but an earlier attempt's success came late", "scan: give up"),
    ("leased", "delivered", "an earlier attempt's success came late", "scan: give up; deliver: refused claim"),
    ("published", "delivered", "an earlier attempt's success came late", "scan: give up; deliver: refused claim"),
    ("pending", "cancelled", "no claim is open, no attempt is unknown", "cancel; series: withdraw"),
    ("leased", "cancelled", "no claim is open, no attempt is unknown", "cancel; series: withdraw"),
    ("published", "cancelled", "no claim is open, no attempt is unknown", "cancel; series: withdraw"),
    ("dead", "cancelled", "no attempt is unknown; or it is resolved as not sent, and cancellation was requested", "cancel; resolve"),
    ("expired", "cancelled", "no attempt is unknown", "cancel"),
    ("pending", "dead", "an earlier attempt is unknown, and `expires_at` has passed or it was cancelled; or it has waited too long; or the ledger was restored, and it may have been sent", "scan: give up; cancel; quarantine"),
    ("pending", "pending", "no attempt is unknown; or its destination is held; or a cap has turns to give", "scan: lease, hurry; reschedule; series: move"),
    ("leased", "pending", "no attempt is unknown; or its destination or channel is held, or its user has quiet hours, or a cap has no turn for it; or its tenant was handed over; or, in shadow, this worker lacks its channel", "scan: lease, limits; deliver: refused token, refused claim, shadow; handover; reschedule; series: move"),
    ("published", "pending", "no attempt is unknown; or its destination or channel is held, or its user has quiet hours, or a cap has no turn for it; or its tenant was handed over; or, in shadow, this worker lacks its channel", "scan: lease; deliver: refused token, refused claim, shadow; handover; reschedule; series: move"),
    ("pending", "held", "a pause covers it, or its tenant is off, or a drain works it off, or is stopped", "scan: lease; drain"),
    ("leased", "held", "a pause covers it, or its tenant is off; or what has let it go is beyond its rate, or stopped", "scan: lease; deliver: refused claim; drain"),
    ("published", "held", "a pause covers it, or its tenant is off; or what has let it go is beyond its rate, or stopped", "scan: lease; deliver: refused claim; drain"),
    ("held", "held", "its pause has ended and another one covers it, or its tenant is off", "scan: release"),
    ("held", "pending", "its pause has ended and no other one covers it; or no attempt is unknown", "scan: release; reschedule; series: move"),
    ("held", "cancelled", "no attempt is unknown", "cancel; series: withdraw"),
    ("held", "expired", "`expires_at` has passed, no earlier attempt is unknown", "scan: give up"),
    ("held", "dead", "an earlier attempt is unknown, and `expires_at` has passed or it was cancelled; or the ledger was restored, and it may have been sent", "scan: give up; cancel; quarantine"),
    ("held", "delivered", "`expires_at` has passed, but an earlier attempt's success came late", "scan: give up"),
    ("cancelled", "pending", "no attempt is unknown; or its series has withdrawn it and wants it again", "reschedule; series: revive"),
    ("suppressed", "pending", "nothing was delivered", "reschedule"),
    ("expired", "pending", "rescheduled; or redriven in spite of its expiry; no attempt is unknown", "redrive; reschedule"),
    ("dead", "pending", "its letter is open or resolved as not sent, no cancellation was asked for, nothing is unknown or a person has checked, and it has not expired or that is ignored; or rescheduled with no attempt unknown", "redrive; reschedule"),
    ("dead", "delivered", "an earlier attempt's success came late, or it is resolved as delivered", "deliver: finalize; redrive; discard; resolve"),
    ("expired", "delivered", "an earlier attempt's success came late", "redrive"),
)  # fmt: skip
"""Of the status in `reminders_v1`."""

DELIVERY_TRANSITIONS: tuple[Transition, ...] = _moves(
    (None, "sending", "the reminder's row has moved to `sending` in the same statement", "deliver: claim"),
    (None, "retrying", "the ledger was restored, it may have been sent, and its destination deduplicates", "quarantine"),
    (None, "unknown", "the ledger was restored, and it may have been sent", "quarantine"),
    ("retrying", "retrying", "the ledger was restored, it may have been sent, and its destination deduplicates", "quarantine"),
    ("dead", "unknown", "the ledger was restored, and it may have been redriven", "quarantine"),
    ("retrying", "sending", "the reminder's row has moved to `sending` in the same statement", "deliver: claim"),
    ("sending", "delivered", "the claim number stands and the outcome is `Delivered`, or an earlier attempt's success came late", "deliver: finalize; repair"),
    ("sending", "retrying", "the claim number stands, and another attempt may follow", "deliver: finalize, give back; repair"),
    ("sending", "dead", "the claim number stands, and the destination or our own fault ends it", "deliver: finalize; repair"),
    ("sending", "unknown", "the claim number stands, an attempt is unknown and must not be repeated", "deliver: finalize, give back; repair"),
    ("sending", "cancelled", "the claim number stands, cancellation was requested, no attempt is unknown", "deliver: finalize, give back"),
    ("retrying", "delivered", "an earlier attempt's success came late", "scan: give up; deliver: refused claim; repair"),
    ("retrying", "expired", "`expires_at` has passed, no attempt is unknown", "scan: give up; deliver: refused claim"),
    ("retrying", "suppressed", "a suppression or a preference forbids it, no attempt is unknown", "scan: give up; deliver: refused claim"),
    ("retrying", "dead", "its destination is disabled or it has waited too long, no attempt is unknown", "scan: give up; deliver: refused claim"),
    ("retrying", "unknown", "an attempt is unknown, and it expired, waited too long, left the deduplication window, was cancelled or suppressed, or its destination is disabled, or its tenant is in shadow; or the ledger was restored, and it may have been sent", "scan: give up; deliver: refused claim; cancel; repair; quarantine"),
    ("retrying", "cancelled", "no attempt is unknown", "cancel; repair"),
    ("retrying", "superseded", "no attempt is unknown; or, of these, its tenant is in shadow", "reschedule; deliver: shadow, refused claim; scan: give up"),
    ("dead", "cancelled", "no attempt is unknown; or its letter is resolved as not sent, and cancellation was requested", "cancel; repair; resolve"),
    ("unknown", "cancelled", "its letter is resolved as not sent, and cancellation was requested", "resolve"),
    ("unknown", "dead", "its letter is resolved as not sent", "resolve"),
    ("dead", "superseded", "no attempt is unknown", "reschedule"),
    ("expired", "superseded", "no attempt is unknown", "reschedule"),
    ("cancelled", "superseded", "no attempt is unknown", "reschedule"),
    ("suppressed", "superseded", "nothing was delivered", "reschedule"),
    ("dead", "retrying", "its letter is open or resolved as not sent, and nothing is unknown or a person has checked", "redrive"),
    ("unknown", "retrying", "its letter is open, and a person has checked", "redrive"),
    ("expired", "retrying", "the reminder has expired, and that is ignored", "redrive"),
    ("dead", "delivered", "an earlier attempt's success came late, or its letter is resolved as delivered", "deliver: finalize; redrive; discard; resolve; repair"),
    ("unknown", "delivered", "an earlier attempt's success came late, or its letter is resolved as delivered", "deliver: finalize; redrive; discard; resolve; repair"),
    ("expired", "delivered", "an earlier attempt's success came late", "redrive"),
)  # fmt: skip
"""Of `notification_deliveries.status`, one row per delivery key."""

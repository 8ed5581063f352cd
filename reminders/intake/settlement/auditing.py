"""Does everything that follows from the facts exist? Decisions, reminders and deliveries, compared and repaired.

INTERFACE ONLY for now (the bodies follow).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from reminders.intake.settlement.running import AlreadyRunning, Workshop

Finding = Literal[
    "decision_missing",
    "decision_differs",
    "decision_stale",
    "reminder_missing",
    "reminder_stale",
    "not_told",
    "not_delivered",
]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is not as it should be. `repaired` only where it was asked for and could be done."""

    finding: Finding
    decision: str
    order: str | None
    line_id: str | None
    payout_id: str
    detail: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class ReconciliationAudit:
    """`found` holds at most `limit`; `counts` all, by finding. `statuses`: decisions by (name, reminder's status)."""

    source: str
    orders: int
    decisions: int
    counts: Mapping[str, int]
    found: tuple[Found, ...]
    statuses: Mapping[tuple[str, str], int]
    run_id: UUID | None
    """The run that the repairs are on record under."""


def audit(
    workshop: Workshop, *, repair: bool = False, actor: str, limit: int = 100
) -> ReconciliationAudit | AlreadyRunning:
    """Decide over all orders of the source, in pages, without applying it, or with `repair` as step 2 does."""
    raise NotImplementedError

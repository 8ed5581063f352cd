"""What the stage of shadows needs of the ledger, as protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.tenants import Decision


@dataclass(frozen=True, slots=True)
class Shadowed:
    """What a claim would be for, if the tenant were live."""

    delivery: Delivery
    body_hash: bytes | None
    """Of the body that an attempt sent before the tenant was in shadow."""
    template_id: UUID | None
    """The version of a template that a claim would pin, or has pinned."""


class ShadowLedger(Protocol):
    """The moves of the shadow. Each is guarded by everything that a claim is, and by the tenant being in shadow."""

    def would_call(self, reminder_id: UUID, delivery_key: str) -> Shadowed | None:
        """What would be called for now; None if nothing would, or not in shadow."""

    def shadow_if_still_so(
        self, shadowed: Shadowed, decision: Decision, *, why: str | None = None, body_hash: bytes | None = None
    ) -> bool:
        """End the reminder as shadowed and write down what was decided; whether it did."""

    def wait_if_still_so(self, shadowed: Shadowed, seconds: float) -> bool:
        """Let it come again after so many seconds; whether it will."""

"""Lanes, the unit of fairness: one per tenant, and one of its own for a destination that has more due than its share.

A lane's name is the tenant's, or the tenant's and the destination's id with a separator between them that no tenant's
name can hold.
"""

from __future__ import annotations

from uuid import UUID

SEPARATOR = "\x1f"


def tenant_of(lane: str) -> str:
    """Whose lane it is."""
    return lane.partition(SEPARATOR)[0]


def destination_of(lane: str) -> UUID | None:
    """The destination whose own lane it is; None for a tenant's common lane."""
    _, separator, destination = lane.partition(SEPARATOR)
    return UUID(destination) if separator else None


def own_lane(lane: str, destination: UUID) -> str:
    """The lane of this destination's own beside the tenant's common `lane`."""
    return f"{lane}{SEPARATOR}{destination}"

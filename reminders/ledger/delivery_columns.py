"""A reminder's immutable columns as what a provider is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.delivery import Delivery

COLUMNS = """r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.destination, r.due_at, r.zone, r.reference,
       r.slot, r.data::text"""
"""What `delivery_of` reads, of a reminder `r`."""


def delivery_of(
    reminder_id: UUID,
    delivery_key: str,
    columns: Sequence[Any],
    *,
    attempt: int,
    body_format: int,
    claimed_at: datetime | None = None,
    uncertain_since: datetime | None = None,
) -> Delivery:
    """The delivery of a reminder whose `COLUMNS` these are."""
    tenant, user, kind, channel, place, address, due_at, zone, reference, slot, data = columns
    return Delivery(
        reminder_id=reminder_id,
        delivery_key=delivery_key,
        tenant_id=tenant,
        user_id=user,
        kind=kind,
        channel=channel,
        destination_id=UUID(place),
        destination=address,
        due_at=due_at.astimezone(UTC),
        zone=zone,
        reference=reference,
        slot=slot,
        data=json.loads(data),
        attempt=attempt,
        body_format=body_format,
        claimed_at=claimed_at,
        uncertain_since=uncertain_since,
    )

"""What a provider is given: one claimed delivery, read from the ledger's immutable columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.domain.template import Template


@dataclass(frozen=True, slots=True)
class Delivery:
    """One claimed delivery.

    `attempt` counts from 1; it must not enter the body, which is the same for every attempt.
    `body_format` is the rendering rule pinned by the first claim: a later release keeps rendering it. `template` is the
    version that it pinned, for channels whose messages are written by templates. `claimed_at` is when this attempt was
    claimed, `uncertain_since` when the first one was whose outcome is unknown (None if none is); both by Postgres's clock.
    `secrets` are those of the destination's own that sign now, newest first, as bytes; empty where the derived one signs
    alone.
    """

    reminder_id: UUID
    delivery_key: str
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    destination_id: UUID
    destination: str = field(repr=False)
    due_at: datetime
    zone: str | None
    reference: str | None
    slot: str
    data: Mapping[str, Any] = field(repr=False)
    attempt: int
    body_format: int
    template: Template | None = field(default=None, repr=False)
    claimed_at: datetime | None = None
    uncertain_since: datetime | None = None
    secrets: tuple[bytes, ...] = field(default=(), repr=False)

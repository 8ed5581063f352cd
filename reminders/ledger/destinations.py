"""Destinations: where channels deliver, and what each promises about a delivery key that it sees twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.domain.identity import destination_id
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

_COLUMNS = "id::text, tenant_id, channel, address, deduplicates, created_at"

GET = Statement("destination_get", f"SELECT {_COLUMNS} FROM {{s}}.destinations WHERE id = :id", {"id": "uuid"})

LIST = Statement(
    "destination_list",
    f"""
SELECT {_COLUMNS} FROM {{s}}.destinations
WHERE (:tenant IS NULL OR tenant_id = :tenant) AND (:channel IS NULL OR channel = :channel)
ORDER BY tenant_id, channel, created_at, id LIMIT :limit
""",
    {"tenant": "text", "channel": "text", "limit": "integer"},
)

SET_DEDUPLICATES = Statement(
    "destination_set",
    f"UPDATE {{s}}.destinations SET deduplicates = :deduplicates WHERE id = :id RETURNING {_COLUMNS}",
    {"id": "uuid", "deduplicates": "boolean"},
)

# A destination may be described before the first reminder goes there; scheduling leaves a known one as it is.
DESCRIBE = Statement(
    "destination_describe",
    f"""
INSERT INTO {{s}}.destinations (id, tenant_id, channel, address, deduplicates)
VALUES (:id, :tenant, :channel, :address, :deduplicates)
ON CONFLICT (id) DO UPDATE SET deduplicates = EXCLUDED.deduplicates
RETURNING {_COLUMNS}
""",
    {"id": "uuid", "tenant": "text", "channel": "text", "address": "text", "deduplicates": "boolean"},
)


@dataclass(frozen=True, slots=True)
class Destination:
    """One destination. `address` is personal data on most channels: it stays out of `repr`."""

    id: UUID
    tenant_id: str
    channel: str
    address: str = field(repr=False)
    deduplicates: bool
    created_at: datetime


def get(database: Database, wanted: UUID) -> Destination:
    """The destination with this id. Raises `NotFound`."""
    return _one(database.fetch(GET, id=str(wanted)), wanted)


def matching(database: Database, *, tenant: str | None, channel: str | None, limit: int) -> list[Destination]:
    """Destinations by tenant, channel and age."""
    return [_destination(row) for row in database.fetch(LIST, tenant=tenant, channel=channel, limit=limit)]


def set_deduplicates(database: Database, wanted: UUID, deduplicates: bool) -> Destination:
    """Say whether the destination applies a delivery key once; claims from now on go by it. Raises `NotFound`."""
    return _one(database.fetch(SET_DEDUPLICATES, id=str(wanted), deduplicates=deduplicates), wanted)


def describe(database: Database, tenant: str, channel: str, address: str, *, deduplicates: bool) -> Destination:
    """The same by what the destination is, whether or not a reminder has gone there yet. The texts must be checked."""
    wanted = destination_id(tenant, channel, address)
    rows = database.fetch(
        DESCRIBE, id=str(wanted), tenant=tenant, channel=channel, address=address, deduplicates=deduplicates
    )
    return _one(rows, wanted)


def _one(rows: list[tuple[Any, ...]], wanted: UUID) -> Destination:
    if not rows:
        raise NotFound(f"there is no destination {wanted}")
    return _destination(rows[0])


def _destination(row: tuple[Any, ...]) -> Destination:
    place, tenant, channel, address, deduplicates, created_at = row
    return Destination(UUID(place), tenant, channel, address, deduplicates, created_at.astimezone(UTC))

"""Destinations: where reminders go, and what an operator has said about a place instead of its channel's default."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.domain.identity import destination_id
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

KNOWN = Statement(
    "destinations_known",
    """
WITH used AS (
    SELECT destination_id AS id, tenant_id, channel, destination AS address, bool_and(deduplicates) AS deduplicates,
           min(created_at) AS created_at, count(*) AS reminders, count(*) FILTER (WHERE status = 'live') AS live
    FROM {s}.reminders
    WHERE (:id IS NULL OR destination_id = :id) AND (:tenant IS NULL OR tenant_id = :tenant)
      AND (:channel IS NULL OR channel = :channel)
    GROUP BY destination_id, tenant_id, channel, destination
), own AS (
    SELECT *, hold_until > clock_timestamp() AS held FROM {s}.destinations
    WHERE (:id IS NULL OR id = :id) AND (:tenant IS NULL OR tenant_id = :tenant)
      AND (:channel IS NULL OR channel = :channel)
)
SELECT id::text, COALESCE(used.tenant_id, own.tenant_id) AS tenant_id, COALESCE(used.channel, own.channel) AS channel,
       COALESCE(used.address, own.address), COALESCE(own.deduplicates, used.deduplicates), own.deduplicates IS NOT NULL,
       LEAST(used.created_at, own.created_at) AS created_at, COALESCE(used.reminders, 0), COALESCE(used.live, 0),
       CASE WHEN own.held THEN own.hold_until END, CASE WHEN own.held THEN own.hold_reason END,
       own.disabled_at, own.disabled_reason, own.failing_since, own.enabled_at, own.enabled_reason,
       CASE WHEN own.breaker_opened_at IS NULL THEN 'closed' WHEN own.hold_until > clock_timestamp() THEN 'open' ELSE 'half_open' END,
       own.breaker_opened_at, COALESCE(own.breaker_times, 0), own.timed_out_at,
       CASE WHEN own.secret_mark IS NOT NULL THEN 'destination' WHEN q.secret_mark IS NOT NULL THEN 'tenant' END
FROM used FULL JOIN own USING (id)
LEFT JOIN {s}.tenant_policies q
    ON q.tenant_id = COALESCE(used.tenant_id, own.tenant_id) AND q.channel = COALESCE(used.channel, own.channel)
ORDER BY tenant_id, channel, created_at, id LIMIT :limit
""",
    {"id": "uuid", "tenant": "text", "channel": "text", "limit": "integer"},
)

SET_DEDUPLICATES = Statement(
    "destination_set",
    """
INSERT INTO {s}.destinations (id, tenant_id, channel, address, deduplicates)
VALUES (:id, :tenant, :channel, :address, :deduplicates)
ON CONFLICT (id) DO UPDATE SET deduplicates = EXCLUDED.deduplicates
RETURNING id::text
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
    deduplicates: bool | None
    """What its claims go by. Without an operator's word: whether all its reminders were scheduled with that default, and
    None as long as there are none."""
    deduplicates_set: bool
    """Whether an operator has said so."""
    created_at: datetime
    """When the first of its reminders was scheduled or, if that was earlier, an operator first spoke of it. UTC."""
    reminders: int
    live: int
    """Of its reminders, those that have not ended."""
    held_until: datetime | None
    """Until when nothing is sent there, because it asked for a pause; None if it is not held now. UTC."""
    hold_reason: str | None
    disabled_at: datetime | None
    """Since when nothing is sent there until an operator enables it; None if it is not disabled. UTC."""
    disabled_reason: str | None
    failing_since: datetime | None
    """Since when every call there has failed; None if the last one did not, or none was made. UTC."""
    enabled_at: datetime | None
    """When an operator last enabled it after it was disabled. UTC."""
    enabled_reason: str | None
    breaker: Literal["closed", "open", "half_open"]
    """Open: nothing is sent there until `held_until`. Half open: one reminder at a time asks whether it is well again."""
    breaker_opened_at: datetime | None
    """Since when the breaker is not closed. UTC."""
    breaker_times: int
    """How often it has opened since."""
    timed_out_at: datetime | None
    """Since when calls there have timed out, the last one included: queue `retry` serves it. UTC."""
    own_secret: Literal["destination", "tenant"] | None
    """Whose own secret signs what is sent there: the destination's, or its tenant's; None where the derived one does."""


def get(database: Database, wanted: UUID) -> Destination:
    """The destination with this id. Raises `NotFound`."""
    return _one(_known(database, id=str(wanted), limit=1), wanted)


def find(database: Database, tenant: str, channel: str, address: str) -> Destination:
    """The same by what the destination is. Raises `NotFound`."""
    wanted = destination_id(tenant, channel, address)
    return _one(_known(database, id=str(wanted), tenant=tenant, limit=1), wanted)


def matching(database: Database, *, tenant: str | None, channel: str | None, limit: int) -> list[Destination]:
    """Destinations that reminders name or an operator has described, by tenant, channel and age."""
    return _known(database, tenant=tenant, channel=channel, limit=limit)


def set_deduplicates(database: Database, tenant: str, channel: str, address: str, *, deduplicates: bool) -> Destination:
    """Say whether the destination applies a delivery key once; claims from now on go by it.

    No reminder need have gone there yet. The texts must be checked.
    """
    database.fetch(
        SET_DEDUPLICATES,
        id=str(destination_id(tenant, channel, address)),
        tenant=tenant,
        channel=channel,
        address=address,
        deduplicates=deduplicates,
    )
    return find(database, tenant, channel, address)


def _known(database: Database, **given: Any) -> list[Destination]:
    # Not `Database.fetch`: it rules out reading a table from end to end, which is what an aggregate needs.
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, KNOWN, **given)
    return [_destination(row) for row in rows]


def _one(found: list[Destination], wanted: UUID) -> Destination:
    if not found:
        raise NotFound(f"there is no destination {wanted}")
    return found[0]


def _destination(row: tuple[Any, ...]) -> Destination:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row[1:]]
    return Destination(UUID(row[0]), *columns)

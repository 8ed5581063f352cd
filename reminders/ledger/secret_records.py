"""What is on record about secrets of one's own: which there are, and who changed them. No secret is read here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from reminders.ledger.database import Database, Row
from reminders.ledger.statement import Statement

_FILTERS = {"tenant": "text", "channel": "text", "destination": "uuid", "limit": "integer"}
_FITS = """(:tenant IS NULL OR x.tenant_id = :tenant) AND (:channel IS NULL OR x.channel = :channel)
  AND (:destination IS NULL OR x.destination_id = :destination)"""

LIST = Statement(
    "secrets_list",
    f"""
SELECT x.id::text, x.tenant_id, x.channel, x.destination_id::text,
       CASE WHEN x.retires_at IS NULL THEN 'signs' WHEN x.retires_at > clock_timestamp() THEN 'retiring' ELSE 'retired' END,
       x.inherited, x.fingerprint, x.key_fingerprint, x.created_at, x.retires_at, c.actor, c.reason
FROM {{s}}.secrets x LEFT JOIN {{s}}.secret_changes c ON c.id = x.id
WHERE {_FITS} AND (:retired OR x.retires_at IS NULL OR x.retires_at > clock_timestamp())
ORDER BY x.tenant_id, x.channel, x.destination_id NULLS FIRST, x.created_at, x.id LIMIT :limit
""",
    {**_FILTERS, "retired": "boolean"},
)

CHANGES = Statement(
    "secret_changes_list",
    f"""
SELECT x.id::text, x.tenant_id, x.channel, x.destination_id::text, x.action, x.fingerprints, x.former_until, x.actor, x.host,
       x.reason, x.changed_at
FROM {{s}}.secret_changes x WHERE {_FITS} ORDER BY x.changed_at DESC, x.id DESC LIMIT :limit
""",
    _FILTERS,
)


@dataclass(frozen=True, slots=True)
class SecretRecord:
    """One secret's record; without `destination_id` it is of a tenant's whole channel. UTC."""

    id: UUID
    tenant_id: str
    channel: str
    destination_id: UUID | None
    state: Literal["signs", "retiring", "retired"]
    inherited: bool
    """Whether it stands for what signed before there was a secret of one's own: the derived one, or the tenant's."""
    fingerprint: str | None
    key_fingerprint: str | None
    """Of the key that encrypts it; None once it is erased."""
    created_at: datetime
    retires_at: datetime | None
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SecretChange:
    """A rotation or revocation: whose, of which secrets, who, where, why. UTC."""

    id: UUID
    tenant_id: str
    channel: str
    destination_id: UUID | None
    action: Literal["rotate", "revoke"]
    fingerprints: list[str]
    """Of the new secret, or of those that were dropped; `inherited` stands for the derived one, or the tenant's."""
    former_until: datetime | None
    actor: str
    host: str
    reason: str | None
    changed_at: datetime


def records(
    database: Database,
    *,
    tenant: str | None = None,
    channel: str | None = None,
    destination: UUID | None = None,
    retired: bool = False,
    limit: int = 100,
) -> list[SecretRecord]:
    """Secrets that sign, by place and age; with `retired` also those that no longer do."""
    rows = database.fetch(LIST, **_given(tenant, channel, destination, limit), retired=retired)
    return [SecretRecord(*_typed(row)) for row in rows]


def changes(
    database: Database,
    *,
    tenant: str | None = None,
    channel: str | None = None,
    destination: UUID | None = None,
    limit: int = 100,
) -> list[SecretChange]:
    """What was done, latest first."""
    return [
        SecretChange(*_typed(row)) for row in database.fetch(CHANGES, **_given(tenant, channel, destination, limit))
    ]


def _given(tenant: str | None, channel: str | None, destination: UUID | None, limit: int) -> dict[str, Any]:
    wanted = None if destination is None else str(destination)
    return {"tenant": tenant, "channel": channel, "destination": wanted, "limit": limit}


def _typed(row: Row) -> list[Any]:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
    columns[0] = UUID(row[0])
    columns[3] = row[3] and UUID(row[3])
    return columns

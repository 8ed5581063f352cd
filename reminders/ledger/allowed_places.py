"""The places that tenants are allowed although they are not public: an operator's word, on record, and those who go by it."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.allowed_places import AllowedPlaces, from_rules
from reminders.domain.errors import NotFound, ServiceUnavailable
from reminders.domain.identity import uuid7
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.statement import Statement

KEPT_SECONDS = 30.0
"""How long a process goes by what it has read: so long a rule may still open, or not yet open, after it was changed."""
_MOST_TENANTS = 4096

STANDING = Statement(
    "allowed_places_standing",
    "SELECT place FROM {s}.allowed_places WHERE tenant_id = :tenant AND ended_at IS NULL",
    {"tenant": "text"},
)

ALLOW = Statement(
    "allow_place",
    """
INSERT INTO {s}.allowed_places (id, tenant_id, place, reason, actor, host)
VALUES (:id, :tenant, :place, :reason, :actor, :host)
ON CONFLICT (tenant_id, place) WHERE ended_at IS NULL DO NOTHING
RETURNING 1
""",
    {"id": "uuid", "tenant": "text", "place": "text", "reason": "text", "actor": "text", "host": "text"},
)

END_IF_STANDING = Statement(
    "end_allowed_place",
    """
UPDATE {s}.allowed_places
SET ended_at = clock_timestamp(), ended_by = :actor, ended_host = :host, ended_reason = :reason
WHERE tenant_id = :tenant AND place = :place AND ended_at IS NULL
RETURNING 1
""",
    {"tenant": "text", "place": "text", "reason": "text", "actor": "text", "host": "text"},
)

LIST = Statement(
    "list_allowed_places",
    """
SELECT id::text, tenant_id, place, reason, actor, host, allowed_at, ended_at, ended_by, ended_reason
FROM {s}.allowed_places
WHERE (:tenant IS NULL OR tenant_id = :tenant) AND (:ended OR ended_at IS NULL)
ORDER BY tenant_id, allowed_at, id LIMIT :limit
""",
    {"tenant": "text", "ended": "boolean", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class AllowedPlace:
    """One rule: `place` is a network or a host name; it stands until `ended_at`. UTC."""

    id: UUID
    tenant_id: str
    place: str
    reason: str
    actor: str
    host: str
    allowed_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    ended_reason: str | None


def allow(database: Database, tenant: str, place: str, *, actor: str, reason: str) -> bool:
    """Let the tenant's reminders go to the place; False where that stands already. The texts must be checked."""
    given = {"tenant": tenant, "place": place, "actor": actor, "reason": reason, "host": socket.gethostname()}
    return bool(database.fetch(ALLOW, id=str(uuid7()), **given))


def disallow(database: Database, tenant: str, place: str, *, actor: str, reason: str) -> None:
    """Take the word back. Raises `NotFound` where it does not stand. The texts must be checked."""
    given = {"tenant": tenant, "place": place, "actor": actor, "reason": reason, "host": socket.gethostname()}
    if not database.fetch(END_IF_STANDING, **given):
        raise NotFound(f"{place} is not allowed to tenant {tenant}; `reminders tenant allow list` shows what is")


def rules(database: Database, *, tenant: str | None, ended: bool, limit: int) -> list[AllowedPlace]:
    """What is allowed, or was, by tenant and age."""
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, LIST, tenant=tenant, ended=ended, limit=limit)
    return [_rule(row) for row in rows]


def allowed_to(connection: CallersConnection, schema: str, tenant: str) -> AllowedPlaces:
    """What the tenant is allowed, seen from the caller's transaction."""
    return from_rules([place for (place,) in fetch(connection, schema, STANDING, tenant=tenant)])


class KeptAllowedPlaces:
    """What tenants are allowed, read when it is asked for and kept for `KEPT_SECONDS`. Any number of threads may share one."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[AllowedPlaces, float]] = {}

    def of(self, tenant: str) -> AllowedPlaces:
        """Raises `ServiceUnavailable` while Postgres is away: a rule that may have ended must not open anything."""
        now = time.monotonic()
        with self._lock:
            found, good_until = self._kept.get(tenant, (None, 0.0))
        if found is not None and now < good_until:
            return found
        try:
            found = from_rules([place for (place,) in self._db.fetch(STANDING, tenant=tenant)])
        except DATABASE_AWAY as error:
            raise ServiceUnavailable(f"what the tenant is allowed cannot be read: {type(error).__name__}") from error
        with self._lock:
            if len(self._kept) >= _MOST_TENANTS:
                self._kept.clear()
            self._kept[tenant] = found, now + KEPT_SECONDS
        return found


def _rule(row: tuple[Any, ...]) -> AllowedPlace:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row[1:]]
    return AllowedPlace(UUID(row[0]), *columns)

"""Reading the ledger of shadows: what would have been sent, and what the live path has sent meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.comparison import PARTS, Key
from reminders.domain.tenants import Decision
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

_PERIOD = {"tenant": "text", "since": "timestamptz", "until": "timestamptz"}

LIST = Statement(
    "list_shadows",
    """
SELECT reminder_id::text, delivery_key, user_id, kind, channel, reference, slot, destination_id::text, decision, why,
       encode(body_hash, 'hex'), template_id::text, due_at, decided_at, extract(epoch FROM lateness)::float8, worker,
       released_at, released_by
FROM {s}.shadow_deliveries
WHERE tenant_id = :tenant AND decided_at >= COALESCE(:since, '-infinity') AND (:decision IS NULL OR decision = :decision)
ORDER BY decided_at DESC, delivery_key LIMIT :limit
""",
    {"tenant": "text", "since": "timestamptz", "decision": "text", "limit": "integer"},
)

# Read page by page: a tenant may have shadowed a million.
PAGE = Statement(
    "shadow_page",
    """
SELECT COALESCE(reference, ''), user_id, kind, channel, due_at, decided_at, decision, delivery_key,
       extract(epoch FROM lateness)::float8
FROM {s}.shadow_deliveries
WHERE tenant_id = :tenant AND decided_at >= COALESCE(:since, '-infinity') AND decided_at < COALESCE(:until, 'infinity')
  AND (:after IS NULL OR (decided_at, delivery_key) > (:after, :after_key))
ORDER BY decided_at, delivery_key LIMIT :limit
""",
    {**_PERIOD, "after": "timestamptz", "after_key": "text", "limit": "integer"},
)

# The first call of each delivery; the later ones repeat it.
LIVE_PAGE = Statement(
    "live_page",
    """
SELECT COALESCE(r.reference, ''), r.user_id, r.kind, r.channel, r.due_at, first.claimed_at, n.delivery_key, r.id::text
FROM (
    SELECT r.* FROM {s}.reminders r
    WHERE r.tenant_id = :tenant AND (:after_user IS NULL OR (r.user_id, r.id) > (:after_user, :after_id))
    ORDER BY r.user_id, r.id LIMIT :limit
) r
LEFT JOIN {s}.notification_deliveries n ON n.reminder_id = r.id
LEFT JOIN LATERAL (
    SELECT min(a.claimed_at) AS claimed_at FROM {s}.delivery_attempts a WHERE a.delivery_key = n.delivery_key
) first ON true
ORDER BY r.user_id, r.id
""",
    {"tenant": "text", "after_user": "text", "after_id": "uuid", "limit": "integer"},
)

BEGUN = Statement(
    "shadow_begun",
    """
SELECT min(decided_at), max(decided_at) FROM {s}.shadow_deliveries
WHERE tenant_id = :tenant AND decided_at >= COALESCE(:since, '-infinity')
""",
    {"tenant": "text", "since": "timestamptz"},
)

PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """One reminder that was not sent. Instants are UTC, lateness is in seconds."""

    reminder_id: UUID
    delivery_key: str
    user_id: str
    kind: str
    channel: str
    reference: str | None
    slot: str
    destination_id: UUID
    decision: Decision
    why: str | None
    body_hash: str | None
    """SHA-256, in hexadecimal digits."""
    template_id: UUID | None
    due_at: datetime
    decided_at: datetime
    """When the provider would have been called."""
    lateness: float
    worker: str | None
    released_at: datetime | None
    released_by: str | None


@dataclass(frozen=True, slots=True)
class ShadowEntry:
    """What a report needs of one. `key` has the parts of `reminders.domain.comparison.PARTS`."""

    key: Key
    due_at: datetime
    decided_at: datetime
    decision: Decision
    lateness: float


def shadows(
    database: Database, tenant: str, *, since: datetime | None, decision: Decision | None, limit: int
) -> list[ShadowRow]:
    """What tenants in shadow were not sent, newest first."""
    rows = database.fetch(LIST, tenant=tenant, since=since, decision=decision, limit=limit)
    return [_row(row) for row in rows]


def begun(database: Database, tenant: str, since: datetime | None) -> tuple[datetime, datetime] | None:
    """The first and the last instant at which the tenant would have been sent something since then; None if there is none."""
    ((first, last),) = database.fetch(BEGUN, tenant=tenant, since=since)
    return None if first is None else (first.astimezone(UTC), last.astimezone(UTC))


def entries(database: Database, tenant: str, since: datetime | None, until: datetime | None) -> Iterator[ShadowEntry]:
    """All of them in the order of time."""
    after, after_key = None, None
    while rows := database.fetch(
        PAGE, tenant=tenant, since=since, until=until, after=after, after_key=after_key, limit=PAGE_SIZE
    ):
        for *key, due_at, decided_at, decision, delivery_key, lateness in rows:
            after, after_key = decided_at, delivery_key
            yield ShadowEntry(tuple(key), due_at, decided_at, decision, lateness)


def live_calls(database: Database, tenant: str, since: datetime, until: datetime) -> Iterator[tuple[Key, datetime]]:
    """When the live path first called the provider for each delivery of the tenant, from `since` up to `until` inclusive."""
    after_user, after_id = None, None
    while rows := database.fetch(LIVE_PAGE, tenant=tenant, after_user=after_user, after_id=after_id, limit=PAGE_SIZE):
        for *key, _due_at, called_at, _delivery_key, reminder_id in rows:
            after_user, after_id = key[PARTS.index("user_id")], reminder_id
            if called_at is not None and since <= called_at <= until:
                yield tuple(key), called_at


def _row(row: tuple[Any, ...]) -> ShadowRow:
    reminder_id, key, user, kind, channel, reference, slot, place, decision, why, body_hash, template, *rest = row
    due_at, decided_at, lateness, worker, released_at, released_by = rest
    return ShadowRow(
        UUID(reminder_id),
        key,
        user,
        kind,
        channel,
        reference,
        slot,
        UUID(place),
        decision,
        why,
        body_hash,
        None if template is None else UUID(template),
        due_at.astimezone(UTC),
        decided_at.astimezone(UTC),
        lateness,
        worker,
        released_at and released_at.astimezone(UTC),
        released_by,
    )

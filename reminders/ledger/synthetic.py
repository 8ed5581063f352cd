"""The rows of a synthetic reminder: how its tenant is set up, how it is followed, and how all of it is taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from reminders.domain.tenants import Mode
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

# A tenant that is there already keeps its mode and its owner.
SET_UP = Statement(
    "synthetic_set_up",
    """
INSERT INTO {s}.tenant_policies AS p (tenant_id, channel, mode, dispatcher, retry_delays)
VALUES (:tenant, '', 'live', :dispatcher, :retry_delays)
ON CONFLICT (tenant_id, channel) DO UPDATE
SET retry_delays = EXCLUDED.retry_delays, mode = COALESCE(p.mode, EXCLUDED.mode), dispatcher = COALESCE(p.dispatcher, EXCLUDED.dispatcher)
RETURNING mode, dispatcher
""",
    {"tenant": "text", "dispatcher": "text", "retry_delays": "float8[]"},
)

FOLLOW = Statement(
    "synthetic_follow",
    """
SELECT COALESCE(d.status, r.status), COALESCE(n.claim_number, 0), z.reason,
       (SELECT COALESCE(json_agg(json_build_array(a.outcome, a.error_class, a.reason) ORDER BY a.claimed_at), '[]')
        FROM {s}.delivery_attempts a WHERE a.delivery_key = r.delivery_key)
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {s}.pauses z ON z.id = d.hold_id
WHERE r.id = :id
""",
    {"id": "uuid"},
)

# No key of it is remembered: its reference is never used again. The tenant's row goes with the last of its reminders.
FORGET_IF_ENDED = Statement(
    "synthetic_forget",
    """
WITH ended AS MATERIALIZED (
    SELECT r.id, r.destination_id FROM {s}.reminders r
    WHERE r.id = :id AND r.tenant_id = :tenant AND NOT EXISTS (SELECT 1 FROM {s}.due d WHERE d.id = r.id)
    FOR UPDATE
), keys AS MATERIALIZED (
    SELECT n.delivery_key FROM {s}.notification_deliveries n WHERE n.reminder_id = (SELECT id FROM ended)
), attempts AS (
    DELETE FROM {s}.delivery_attempts a WHERE a.delivery_key = ANY(ARRAY(SELECT delivery_key FROM keys))
), deliveries AS (
    DELETE FROM {s}.notification_deliveries n WHERE n.delivery_key = ANY(ARRAY(SELECT delivery_key FROM keys))
), letters AS (
    DELETE FROM {s}.dead_letters l WHERE l.reminder_id = (SELECT id FROM ended)
), notices AS (
    DELETE FROM {s}.notices n WHERE n.destination_id = (SELECT destination_id FROM ended)
), destinations AS (
    DELETE FROM {s}.destinations p WHERE p.id = (SELECT destination_id FROM ended) AND p.tenant_id = :tenant
), tenants AS (
    DELETE FROM {s}.tenant_policies p
    WHERE p.tenant_id = :tenant AND EXISTS (SELECT 1 FROM ended) AND p.mode = 'live' AND p.epoch IS NULL
      AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.tenant_id = :tenant AND r.id <> :id)
)
DELETE FROM {s}.reminders r WHERE r.id = (SELECT id FROM ended) RETURNING 1
""",
    {"id": "uuid", "tenant": "text"},
)

# Of a doctor that was killed.
LEFT = Statement(
    "synthetic_left",
    """
SELECT id::text FROM {s}.reminders r
WHERE r.tenant_id = :tenant AND r.user_id = :user AND r.created_at < clock_timestamp() - make_interval(secs => :age)
LIMIT 100
""",
    {"tenant": "text", "user": "text", "age": "float8"},
)


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt on record."""

    outcome: str
    error_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class Followed:
    """Where a reminder stands. `held_for` is the reason of the pause that holds it."""

    status: str
    claims: int
    held_for: str | None
    attempts: Sequence[Tried]


def set_up(database: Database, tenant: str, *, dispatcher: str, retry_delays: Sequence[float]) -> tuple[Mode, str]:
    """Let a tenant be live, of this dispatcher and with delays (seconds) of its own; its mode and owner, as they are now."""
    ((mode, owner),) = database.fetch(SET_UP, tenant=tenant, dispatcher=dispatcher, retry_delays=list(retry_delays))
    return mode, owner


def follow(database: Database, reminder_id: UUID) -> Followed:
    """Where the reminder stands now."""
    ((status, claims, held_for, attempts),) = _fetch(database, FOLLOW, id=str(reminder_id))
    return Followed(status, claims, held_for, [Tried(*attempt) for attempt in attempts])


def forget_if_ended(database: Database, reminder_id: UUID, tenant: str) -> bool:
    """Delete everything about a reminder of this tenant that has reached its end; False for one that is live."""
    return bool(_fetch(database, FORGET_IF_ENDED, id=str(reminder_id), tenant=tenant))


def left(database: Database, tenant: str, user: str, age: float) -> list[UUID]:
    """Reminders of this tenant and user that were made more than `age` seconds ago; a hundred at most."""
    return [UUID(row[0]) for row in _fetch(database, LEFT, tenant=tenant, user=user, age=age)]


def _fetch(database: Database, statement: Statement, **given: Any) -> list[tuple[Any, ...]]:
    with database.transaction() as connection:
        return fetch(connection, database.schema, statement, **given)

"""The moves that a series makes with a reminder of its own: withdraw it, move it, revive what it had withdrawn.

What a worker has claimed, what may have been sent and what has ended otherwise is left alone: each move locks the rows in
the order of all others (`due`, then the reminder) and then looks again, since it may have waited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.domain.identity import delivery_key
from reminders.ledger.database import Row
from reminders.ledger.statement import Statement

LOCK = Statement("occurrence_lock", "SELECT {s}.lock_rows(ARRAY[:id])", {"id": "uuid"})

# Of a reminder that nobody is sending and that surely was not sent: it lives, or its series has withdrawn it.
STANDING = Statement(
    "occurrence_standing",
    """
SELECT r.version, r.identity_key, d.id IS NOT NULL FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE r.id = :id AND (d.status <> 'sending' OR d.id IS NULL AND r.withdrawn_at IS NOT NULL)
  AND n.uncertain_since IS NULL AND n.confirmed_late_at IS NULL
""",
    {"id": "uuid"},
)

WITHDRAW = Statement(
    "occurrence_withdraw",
    """
WITH gone AS (
    DELETE FROM {s}.due WHERE id = :id
), delivery AS (
    UPDATE {s}.notification_deliveries SET status = 'cancelled', finished_at = clock_timestamp(), letter_kind = NULL
    WHERE reminder_id = :id AND status = 'retrying'
)
UPDATE {s}.reminders SET status = 'cancelled', finished_at = clock_timestamp(), withdrawn_at = clock_timestamp(),
    moved_at = CASE WHEN :keeps_time THEN moved_at END
WHERE id = :id AND version = :version RETURNING 1
""",
    {"id": "uuid", "version": "integer", "keeps_time": "boolean"},
)

BRING = Statement(
    "occurrence_bring",
    """
WITH superseded AS (
    UPDATE {s}.notification_deliveries SET status = 'superseded', finished_at = clock_timestamp(), letter_kind = NULL
    WHERE reminder_id = :id AND status IN ('retrying', 'cancelled')
), brought AS (
    UPDATE {s}.reminders
    SET destination = :destination, destination_id = :destination_id, deduplicates = :deduplicates, data = :data,
        due_at = :due_at, zone = :zone, expires_at = :expires_at, version = version + 1, delivery_key = :new_key,
        status = 'live', finished_at = NULL, last_outcome = NULL, cancel_requested_at = NULL, withdrawn_at = NULL,
        moved_at = CASE WHEN :keeps_time THEN moved_at END
    WHERE id = :id AND version = :version
    RETURNING id, tenant_id, destination_id
)
INSERT INTO {s}.due AS d (id, lane, destination_id, wake_at, give_up_at, status, delivery_key)
SELECT id, tenant_id, destination_id, :due_at, :expires_at, 'pending', :new_key FROM brought
ON CONFLICT (id) DO UPDATE
SET lane = EXCLUDED.lane, destination_id = EXCLUDED.destination_id, wake_at = EXCLUDED.wake_at,
    give_up_at = EXCLUDED.give_up_at, status = 'pending', delivery_key = EXCLUDED.delivery_key, route = 'deliver',
    lease_token = NULL, published_at = NULL, attempts = 0, alone_deaths = 0, hold_id = NULL, held_at = NULL, wait_left = NULL,
    let_go_by = NULL, due_since = NULL
RETURNING 1
""",
    {
        "id": "uuid", "version": "integer", "new_key": "text", "destination": "text", "destination_id": "uuid",
        "deduplicates": "boolean", "data": "jsonb", "due_at": "timestamptz", "zone": "text", "expires_at": "timestamptz",
        "keeps_time": "boolean",
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Free:
    """An occurrence that is locked, and that its series may move; `lives` unless its series has withdrawn it."""

    id: UUID
    version: int
    identity_key: bytes
    lives: bool


def free(run: Callable[..., list[Row]], occurrence_id: UUID) -> Free | None:
    """Lock an occurrence until the transaction ends, and look at it again; None if its series may not move it."""
    run(LOCK, id=str(occurrence_id))
    rows = run(STANDING, id=str(occurrence_id))
    return Free(occurrence_id, rows[0][0], bytes(rows[0][1]), rows[0][2]) if rows else None


def withdraw(run: Callable[..., list[Row]], standing: Free, *, keeps_time: bool) -> bool:
    """End an occurrence so that its series may revive it; whether it lived.

    `keeps_time` says that its time is one that a person has moved it to.
    """
    if not standing.lives:
        return False
    return bool(run(WITHDRAW, id=str(standing.id), version=standing.version, keeps_time=keeps_time))


def bring(
    run: Callable[..., list[Row]],
    standing: Free,
    content: dict[str, Any],
    *,
    due_at: datetime,
    zone: str | None,
    expires_at: datetime | None,
    keeps_time: bool,
) -> bool:
    """Let an occurrence live with this content and at this time, under a new version.

    `keeps_time` says that the time is the one that a person has moved it to.
    """
    given = {"due_at": due_at, "zone": zone, "expires_at": expires_at, "keeps_time": keeps_time, **content}
    new_key = delivery_key(standing.identity_key, standing.version + 1)
    return bool(run(BRING, id=str(standing.id), version=standing.version, new_key=new_key, **given))

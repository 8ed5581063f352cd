"""Dead letters: what keeps failing, for a person to look at, send again or close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.errors import InvalidInput, NotFound
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

_LETTER = """l.id::text, l.reminder_id::text, l.delivery_key, l.kind, l.error_class, l.reason, l.attempts, l.state, l.opened_at,
       l.closed_at, l.actor, l.action_reason, r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.reference"""

_FILTERS = """(:ids IS NULL OR l.id = ANY(:ids) OR l.reminder_id = ANY(:ids)) AND (:tenant IS NULL OR r.tenant_id = :tenant)
  AND (:kind IS NULL OR l.kind = :kind) AND (:channel IS NULL OR r.channel = :channel)"""

LIST = Statement(
    "dlq_list",
    f"""
SELECT {_LETTER} FROM {{s}}.dead_letters l JOIN {{s}}.reminders r ON r.id = l.reminder_id
WHERE {_FILTERS} AND (:state IS NULL OR l.state = :state)
ORDER BY l.opened_at, l.id LIMIT :limit
""",
    {"ids": "uuid[]", "tenant": "text", "kind": "text", "channel": "text", "state": "text", "limit": "integer"},
)

# A redrive opens a new budget under the same key; what is uncertain goes only with the operator's word that it was
# checked, and what may have killed its worker goes alone. Rows that an application holds are skipped, and can be
# redriven again.
REDRIVE = Statement(
    "dlq_redrive",
    f"""
WITH picked AS MATERIALIZED (
    SELECT l.id AS letter_id, r.id, r.tenant_id, r.delivery_key,
           CASE l.error_class WHEN 'worker_lost' THEN 'alone' ELSE 'deliver' END AS route
    FROM {{s}}.dead_letters l JOIN {{s}}.reminders r ON r.id = l.reminder_id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = l.delivery_key
    WHERE l.state = 'open' AND r.status = 'dead' AND r.cancel_requested_at IS NULL AND {_FILTERS}
      AND (:checked OR (l.kind <> 'unknown' AND n.uncertain_since IS NULL))
      AND l.delivery_key = r.delivery_key
      AND n.confirmed_late_at IS NULL
    ORDER BY l.opened_at, l.id LIMIT :limit
    FOR NO KEY UPDATE OF l, r SKIP LOCKED
), revived AS (
    UPDATE {{s}}.reminders r SET status = 'live', finished_at = NULL FROM picked WHERE r.id = picked.id
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = clock_timestamp(), letter_kind = NULL, finished_at = NULL, budget_started_at = NULL,
        uncertain_since = NULL
    FROM picked WHERE n.delivery_key = picked.delivery_key
), woken AS (
    INSERT INTO {{s}}.due (id, lane, wake_at, status, delivery_key, route)
    SELECT id, tenant_id, clock_timestamp(), 'pending', delivery_key, route FROM picked
)
UPDATE {{s}}.dead_letters l
SET state = 'redriven', closed_at = clock_timestamp(), actor = :actor, action_reason = :reason
FROM picked WHERE l.id = picked.letter_id
RETURNING l.reminder_id::text
""",
    {
        "ids": "uuid[]", "tenant": "text", "kind": "text", "channel": "text", "checked": "boolean", "limit": "integer",
        "actor": "text", "reason": "text",
    },
)  # fmt: skip

# An attempt has reported its success after it was given up: nothing is left to send.
SETTLE_CONFIRMED = Statement(
    "dlq_settle_confirmed",
    f"""
WITH picked AS MATERIALIZED (
    SELECT l.id AS letter_id, r.id, r.delivery_key
    FROM {{s}}.dead_letters l JOIN {{s}}.reminders r ON r.id = l.reminder_id
    JOIN {{s}}.notification_deliveries n ON n.delivery_key = l.delivery_key
    WHERE l.state = 'open' AND r.status = 'dead' AND l.delivery_key = r.delivery_key AND n.confirmed_late_at IS NOT NULL
      AND {_FILTERS}
    ORDER BY l.opened_at, l.id LIMIT :limit
    FOR NO KEY UPDATE OF l, r SKIP LOCKED
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, letter_kind = NULL, finished_at = clock_timestamp()
    FROM picked WHERE n.delivery_key = picked.delivery_key
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = clock_timestamp()
    FROM picked WHERE r.id = picked.id
)
UPDATE {{s}}.dead_letters l
SET state = 'resolved', closed_at = clock_timestamp(), actor = :actor, action_reason = 'its success was reported late'
FROM picked WHERE l.id = picked.letter_id
RETURNING l.reminder_id::text
""",
    {"ids": "uuid[]", "tenant": "text", "kind": "text", "channel": "text", "limit": "integer", "actor": "text"},
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, with enough of its reminder to recognise it."""

    id: UUID
    reminder_id: UUID
    delivery_key: str
    kind: str
    error_class: str
    reason: str
    attempts: int
    state: str
    opened_at: datetime
    closed_at: datetime | None
    actor: str | None
    action_reason: str | None
    tenant_id: str
    user_id: str
    reminder_kind: str
    channel: str
    destination_id: str
    reference: str | None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters; `ids` may be letters' or reminders' ids. Everything left out matches all."""

    ids: Sequence[UUID] = ()
    tenant: str | None = None
    kind: str | None = None
    channel: str | None = None

    def parameters(self) -> dict[str, Any]:
        ids = [str(each) for each in self.ids] or None
        return {"ids": ids, "tenant": self.tenant, "kind": self.kind, "channel": self.channel}


def letters(
    database: Database, wanted: LetterFilter, *, state: str | None = "open", limit: int = 100
) -> list[DeadLetter]:
    """Dead letters, oldest first."""
    rows = database.fetch(LIST, **wanted.parameters(), state=state, limit=limit)
    return [_letter(row) for row in rows]


def letter(database: Database, either_id: UUID) -> DeadLetter:
    """The letter with this id, or the latest one of the reminder with this id. Raises `NotFound`."""
    found = letters(database, LetterFilter(ids=[either_id]), state=None)
    if not found:
        raise NotFound(f"there is no dead letter {either_id}, nor one of a reminder with that id")
    return found[-1]


def redrive(
    database: Database, wanted: LetterFilter, *, actor: str, reason: str, limit: int = 1000, checked: bool = False
) -> list[UUID]:
    """Send open letters' reminders again, with a fresh budget under the same key; return the reminders' ids.

    `checked` is the operator's word that a person made sure the uncertain ones were not sent; without it those are
    left alone. Those whose success was reported late end as delivered instead, and are not among the ids. Raises
    `InvalidInput` without `actor` or `reason`.
    """
    for name, value in (("actor", actor), ("reason", reason)):
        if not isinstance(value, str) or not value.strip() or len(value) > 500 or not value.isprintable():
            raise InvalidInput(name, "is needed: 1 to 500 printable characters, kept with the dead letter")
    actor, reason = actor.strip(), reason.strip()
    database.fetch(SETTLE_CONFIRMED, **wanted.parameters(), limit=limit, actor=actor)
    rows = database.fetch(REDRIVE, **wanted.parameters(), checked=checked, limit=limit, actor=actor, reason=reason)
    return [UUID(row[0]) for row in rows]


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row[2:]]
    return DeadLetter(UUID(row[0]), UUID(row[1]), *columns)

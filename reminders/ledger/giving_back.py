"""Giving a claim back: the provider was not called, so nothing is burnt and no attempt is on record."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reminders.domain.identity import uuid7
from reminders.ledger.database import Database, LockNotAvailable
from reminders.ledger.open_claim import GUARD, LOCK_TIMEOUT_MS, LOCKED, T
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Claim

_CLAIM = {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "seconds": "float8"}

# The budget's time begins with its first attempt; this was none. The audit reckons claims against attempts.
_UNUSED = """budget_started_at = CASE WHEN locked.attempts > 0 THEN n.budget_started_at END,
    given_back = n.given_back + 1"""

GIVEN_BACK = "n.given_back > 0 AND n.uncertain_since IS NULL"
"""SQL of a delivery `n` whose last claim left no attempt on record: it was given back, and there is no doubt about an earlier one."""

# A requested cancellation ends it here, unless an earlier attempt's late success is still to end it as delivered.
RELEASED = Statement(
    "release_not_called",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = verdict.status, retry_at = (SELECT now FROM t) + make_interval(secs => :seconds),
        finished_at = CASE WHEN verdict.status <> 'retrying' THEN (SELECT now FROM t) END,
        letter_kind = CASE WHEN verdict.status = 'unknown' THEN 'unknown' END, {_UNUSED}
    FROM locked JOIN LATERAL (
        SELECT n.delivery_key,
               CASE WHEN NOT locked.cancel_requested OR n.confirmed_late_at IS NOT NULL THEN 'retrying'
                    WHEN n.uncertain_since IS NOT NULL THEN 'unknown'
                    ELSE 'cancelled' END AS status
        FROM {{s}}.notification_deliveries n WHERE {GUARD}
    ) verdict ON true
    WHERE {GUARD}
    RETURNING n.reminder_id, n.delivery_key, n.retry_at, n.status, locked.attempts
), gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id AND delivery.status <> 'retrying'
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, reminder_id, delivery_key, 'unknown', 'cancelled_while_uncertain',
           'cancelled while the outcome of an earlier attempt is unknown', attempts
    FROM delivery WHERE status = 'unknown'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), ended AS (
    UPDATE {{s}}.reminders r
    SET status = CASE delivery.status WHEN 'unknown' THEN 'dead' ELSE 'cancelled' END, finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id AND delivery.status <> 'retrying'
), woken AS (
    UPDATE {{s}}.due d
    SET status = 'pending', wake_at = LEAST(delivery.retry_at, r.expires_at, d.give_up_at), cancel_requested_at = NULL
    FROM delivery JOIN {{s}}.reminders r ON r.id = delivery.reminder_id
    WHERE d.id = delivery.reminder_id AND delivery.status = 'retrying'
)
SELECT 'done' FROM delivery
""",
    {**_CLAIM, "letter_id": "uuid"},
)

# An application's transaction sits on the reminder's row; the look at the claim's end carries the reminder over.
RELEASED_ALONE = Statement(
    "release_alone",
    f"""
WITH {T}, seen AS (SELECT id, attempts FROM {{s}}.due WHERE id = :id)
UPDATE {{s}}.notification_deliveries n
SET status = 'retrying', retry_at = (SELECT now FROM t) + make_interval(secs => :seconds), {_UNUSED}
FROM seen AS locked WHERE {GUARD} AND n.reminder_id = locked.id
RETURNING 'done'
""",
    _CLAIM,
)


def release(database: Database, claim: Claim, seconds: float, now: datetime | None) -> bool:
    """Whether the claim still stood and is given back; the reminder wakes after `seconds`."""
    given: dict[str, Any] = {
        "now": now,
        "id": str(claim.delivery.reminder_id),
        "key": claim.delivery.delivery_key,
        "number": claim.claim_number,
        "seconds": seconds,
    }
    try:
        rows = database.fetch_within(LOCK_TIMEOUT_MS, RELEASED, **given, letter_id=str(uuid7()))
    except LockNotAvailable:
        rows = database.fetch(RELEASED_ALONE, **given)
    return bool(rows)

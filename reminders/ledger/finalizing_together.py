"""The plain end of a claim, delivered and nothing else to see to, for many at once.

What is not plain is left as it is, and goes one by one by `reminders.ledger.finalizing`: a reminder whose row somebody holds,
a claim that has lapsed, a destination that must be noted to have recovered. So a statement of many writes to no row but
those of its own reminders, waits for nobody's lock, and two of them cannot wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reminders.ledger.database import Database, LockNotAvailable
from reminders.ledger.open_claim import T
from reminders.ledger.statement import Statement

LOCK_TIMEOUT_MS = 100
"""How long many may be held up by whoever holds the ledger row of one."""

DELIVERED_TOGETHER = Statement(
    "finalize_delivered_together",
    f"""
WITH {T}, locked AS MATERIALIZED (
    SELECT d.id, d.ready_at, g.*
    FROM unnest(:ids, :keys, :numbers, :codes, :references, :error_classes, :reasons, :durations, :body_hashes)
         AS g (reminder_id, key, number, code, reference, error_class, reason, duration, body_hash)
    JOIN {{s}}.due d ON d.id = g.reminder_id
    JOIN {{s}}.reminders r ON r.id = d.id
    LEFT JOIN {{s}}.destinations p ON p.id = d.destination_id
    WHERE d.delivery_key = g.key AND d.status = 'sending'
      AND p.failing_since IS NULL AND p.timed_out_at IS NULL AND p.probe_id IS DISTINCT FROM d.id
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', provider_reference = locked.reference, uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, locked.body_hash)
    FROM locked WHERE n.delivery_key = locked.key AND n.claim_number = locked.number AND n.status = 'sending'
    RETURNING n.claim_number, n.claimed_at, n.worker, locked.*
), attempt AS (
    INSERT INTO {{s}}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision, ready_at)
    SELECT key, claim_number, claimed_at, reminder_id, worker, 'delivered', code, reference, error_class, reason, duration,
           'delivered', ready_at
    FROM delivery
), gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
)
UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING delivery.key, delivery.number
""",
    {
        "now": "timestamptz", "ids": "uuid[]", "keys": "text[]", "numbers": "integer[]", "codes": "integer[]",
        "references": "text[]", "error_classes": "text[]", "reasons": "text[]", "durations": "integer[]",
        "body_hashes": "bytea[]",
    },
)  # fmt: skip

_COLUMNS = {
    "ids": "id", "keys": "key", "numbers": "number", "codes": "code", "references": "reference",
    "error_classes": "error_class", "reasons": "reason", "durations": "duration", "body_hashes": "body_hash",
}  # fmt: skip
"""The parameters of the statement of many, by those of the statement of one."""


def finalize_delivered(database: Database, reports: Sequence[dict[str, Any]]) -> list[bool]:
    """Of each of the reports, given as the statement of one takes them, whether it was plain and is committed."""
    columns = {many: [report[one] for report in reports] for many, one in _COLUMNS.items()}
    try:
        rows = database.fetch_within(
            LOCK_TIMEOUT_MS, DELIVERED_TOGETHER, in_loops=True, now=reports[0]["now"], **columns
        )
    except LockNotAvailable:
        return [False] * len(reports)
    done = set(rows)
    return [(report["key"], report["number"]) in done for report in reports]

"""Reminders that end without a call: what stands against sending, and the move that ends them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

DEDUP_WINDOW = 7 * 86400.0
"""Seconds for which a destination that deduplicates is taken to remember a key, unless the settings say otherwise."""

_UNCERTAIN_FOR_GOOD = """(n.uncertain_since IS NOT NULL
            AND NOT (COALESCE(p.deduplicates, r.deduplicates)
                     AND n.uncertain_since > (SELECT now FROM t) - make_interval(secs => :window)))"""

ENDS = f"""(r.expires_at <= (SELECT now FROM t) OR d.give_up_at <= (SELECT now FROM t)
            OR n.confirmed_late_at IS NOT NULL OR {_UNCERTAIN_FOR_GOOD})"""
"""Of `due d`, `reminders r`, its destination `p` and delivery `n` (null where there is none): no call may follow any more."""

# An uncertain delivery does not simply expire, nor is it repeated where the destination would not know the key any
# more: whether it was sent is for a person to find out. Both rows are locked, and neither is waited for: an application
# that holds its reminder must hold up neither a worker nor the scan.
END_WITHOUT_CALL = Statement(
    "end_without_call",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
found AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, wanted.letter_id, r.expires_at <= (SELECT now FROM t) AS expired,
           d.give_up_at <= (SELECT now FROM t) AS given_up, n.uncertain_since IS NOT NULL AS uncertain,
           n.confirmed_late_at IS NOT NULL AS confirmed
    FROM unnest(:ids, :letter_ids) AS wanted (id, letter_id)
    JOIN {{s}}.due d ON d.id = wanted.id
    JOIN {{s}}.reminders r ON r.id = d.id
    LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = d.delivery_key
    WHERE d.status IN ('pending', 'leased', 'published') AND {ENDS}
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
), ended AS (
    SELECT *, CASE WHEN confirmed THEN 'delivered' WHEN NOT uncertain AND expired THEN 'expired' ELSE 'dead' END AS status,
           CASE WHEN uncertain THEN 'unknown' ELSE 'destination' END AS letter
    FROM found
), gone AS (
    DELETE FROM {{s}}.due USING ended WHERE due.id = ended.id
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE WHEN ended.status = 'dead' AND ended.uncertain THEN 'unknown' ELSE ended.status END,
        letter_kind = CASE ended.status WHEN 'dead' THEN ended.letter END,
        uncertain_since = CASE ended.status WHEN 'dead' THEN n.uncertain_since END, finished_at = (SELECT now FROM t)
    FROM ended WHERE n.delivery_key = ended.delivery_key
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT letter_id, id, delivery_key, letter,
           CASE WHEN uncertain THEN CASE WHEN expired THEN 'expired_while_uncertain' ELSE 'not_repeatable' END
                ELSE 'waited_too_long' END,
           CASE WHEN NOT uncertain THEN 'its destination was not to be called for as long as a reminder may wait'
                WHEN expired THEN 'expired while the outcome of an earlier attempt is unknown'
                ELSE 'the outcome of an earlier attempt is unknown and the destination may not know its key any more' END,
           attempts
    FROM ended WHERE status = 'dead'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
)
UPDATE {{s}}.reminders r
SET status = ended.status, finished_at = (SELECT now FROM t),
    last_outcome = CASE ended.status WHEN 'delivered' THEN 'delivered' ELSE r.last_outcome END
FROM ended WHERE r.id = ended.id
RETURNING r.status
""",
    {"now": "timestamptz", "ids": "uuid[]", "letter_ids": "uuid[]", "window": "float8"},
)

GIVEN_UP = Statement(
    "given_up",
    """
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT id::text FROM {s}.due
WHERE give_up_at <= (SELECT now FROM t) AND status IN ('pending', 'leased', 'published')
ORDER BY give_up_at LIMIT :limit
""",
    {"now": "timestamptz", "limit": "integer"},
)


def end_without_call(database: Database, ids: Sequence[UUID | str], window: float, now: datetime | None) -> list[str]:
    """End those of the reminders that nothing may be sent for any more; what each of them has become.

    `window` is the seconds for which destinations that deduplicate remember a key.
    """
    rows = database.fetch(
        END_WITHOUT_CALL,
        now=now,
        ids=[str(each) for each in ids],
        letter_ids=[str(uuid7()) for _ in ids],
        window=window,
    )
    return [str(status) for (status,) in rows]


def end_given_up(database: Database, limit: int, window: float, now: datetime | None) -> list[str]:
    """End up to `limit` reminders whose `give_up_at` has passed; what each has become."""
    ids = [each for (each,) in database.fetch(GIVEN_UP, now=now, limit=limit)]
    return end_without_call(database, ids, window, now) if ids else []

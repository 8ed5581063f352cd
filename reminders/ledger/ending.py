"""Reminders that end without a call: the move that ends those for which nothing may be sent any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.ledger.claim_rules import ENDS, PLACE, RULES
from reminders.ledger.consent_rules import SUPPRESSED_BY, reason_of
from reminders.ledger.database import Database
from reminders.ledger.shadow_rows import shadow_of_ended
from reminders.ledger.statement import Statement

DEDUP_WINDOW = 7 * 86400.0
"""Seconds for which a destination that deduplicates is taken to remember a key, unless the settings say otherwise."""

# An uncertain delivery does not simply expire or end as suppressed, nor is it repeated where the destination would not know the key any
# more: whether it was sent is for a person to find out. Both rows are locked, and neither is waited for: an application
# that holds its reminder must hold up neither a worker nor the scan.
END_WITHOUT_CALL = Statement(
    "end_without_call",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
found AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, wanted.letter_id, r.expires_at <= (SELECT now FROM t) AS expired,
           d.give_up_at <= (SELECT now FROM t) AS given_up, p.disabled_at IS NOT NULL AS disabled,
           n.uncertain_since IS NOT NULL AS uncertain, n.confirmed_late_at IS NOT NULL AS confirmed,
           {SUPPRESSED_BY} AS suppressed_by, COALESCE(qt.mode = 'shadow', false) AS shadow
    FROM unnest(:ids, :letter_ids) AS wanted (id, letter_id)
    JOIN {{s}}.due d ON d.id = wanted.id
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE d.status IN ('pending', 'leased', 'published', 'held') AND {ENDS}
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
), ended AS (
    SELECT *, CASE WHEN confirmed THEN 'delivered' WHEN NOT uncertain AND expired THEN 'expired'
                   WHEN NOT uncertain AND suppressed_by IS NOT NULL THEN 'suppressed'
                   WHEN NOT uncertain AND shadow THEN 'shadowed' ELSE 'dead' END AS status,
           CASE WHEN uncertain THEN 'unknown' ELSE 'destination' END AS letter,
           CASE WHEN expired THEN 'expired while the outcome of an earlier attempt is unknown'
                WHEN suppressed_by IS NOT NULL
                THEN 'suppressed while the outcome of an earlier attempt is unknown: ' || {reason_of("suppressed_by")}
                WHEN disabled THEN 'its destination is disabled'
                WHEN given_up THEN 'its destination was not to be called for as long as a reminder may wait'
                WHEN shadow THEN 'its tenant is in shadow while the outcome of an earlier attempt is unknown'
                ELSE 'the outcome of an earlier attempt is unknown and the destination may not know its key any more' END AS why
    FROM found
), gone AS (
    DELETE FROM {{s}}.due USING ended WHERE due.id = ended.id
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE WHEN ended.status = 'dead' AND ended.uncertain THEN 'unknown' WHEN ended.status = 'shadowed' THEN 'superseded'
                      ELSE ended.status END,
        letter_kind = CASE ended.status WHEN 'dead' THEN ended.letter END,
        uncertain_since = CASE ended.status WHEN 'dead' THEN n.uncertain_since END, finished_at = (SELECT now FROM t)
    FROM ended WHERE n.delivery_key = ended.delivery_key
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT letter_id, id, delivery_key, letter,
           CASE WHEN expired THEN 'expired_while_uncertain' WHEN suppressed_by IS NOT NULL THEN 'suppressed_while_uncertain'
                WHEN disabled THEN 'destination_disabled'
                WHEN given_up THEN 'waited_too_long' WHEN shadow THEN 'shadowed_while_uncertain' ELSE 'not_repeatable' END,
           why,
           attempts
    FROM ended WHERE status = 'dead'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), {shadow_of_ended()}
UPDATE {{s}}.reminders r
SET status = ended.status, finished_at = (SELECT now FROM t),
    last_outcome = CASE ended.status WHEN 'delivered' THEN 'delivered' ELSE r.last_outcome END,
    suppressed_by = CASE ended.status WHEN 'suppressed' THEN ended.suppressed_by END,
    suppressed_reason = CASE ended.status WHEN 'suppressed' THEN {reason_of("ended.suppressed_by")} END
FROM ended WHERE r.id = ended.id
RETURNING r.status
""",
    {**RULES, "now": "timestamptz", "ids": "uuid[]", "letter_ids": "uuid[]"},
)

GIVEN_UP = Statement(
    "given_up",
    """
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT id::text FROM {s}.due
WHERE give_up_at <= (SELECT now FROM t) AND status IN ('pending', 'leased', 'published', 'held')
ORDER BY give_up_at LIMIT :limit
""",
    {"now": "timestamptz", "limit": "integer"},
)


def end_without_call(
    database: Database,
    ids: Sequence[UUID | str],
    *,
    window: float,
    look_ups: Sequence[str] = (),
    now: datetime | None,
) -> list[str]:
    """End those of the reminders that nothing may be sent for any more; what each of them has become.

    `window` is the seconds for which destinations that deduplicate remember a key; `look_ups` names the channels whose
    far side can be asked for it.
    """
    rows = database.fetch(
        END_WITHOUT_CALL,
        now=now,
        ids=[str(each) for each in ids],
        letter_ids=[str(uuid7()) for _ in ids],
        window=window,
        look_ups=list(look_ups),
    )
    return [str(status) for (status,) in rows]


def end_given_up(database: Database, limit: int, window: float, now: datetime | None) -> list[str]:
    """End up to `limit` reminders whose `give_up_at` has passed; what each has become."""
    ids = [each for (each,) in database.fetch(GIVEN_UP, now=now, limit=limit)]
    return end_without_call(database, ids, window=window, now=now) if ids else []

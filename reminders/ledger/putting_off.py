"""Putting a reminder off whose place is held: it waits in the ledger for the hold's end, and nothing is burnt."""

from __future__ import annotations

from reminders.ledger.claim_rules import ENDS, HELD, PLACE, RULES
from reminders.ledger.holding import SPREAD
from reminders.ledger.statement import Statement

MAX_WAIT = 72 * 3600.0
"""Seconds for which a reminder may be put off in all, unless the settings say otherwise."""

# The first time it is put off bounds how long it may wait in all, also if it never gets an attempt.
PUT_OFF_IF_HELD = Statement(
    "put_off",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT d.id, GREATEST(p.hold_until, c.hold_until) AS until,
           LEAST(d.give_up_at, r.expires_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS give_up_at,
           COALESCE(c.hold_until > (SELECT now FROM t), false) AND c.hold_until >= COALESCE(p.hold_until, c.hold_until) AS whole_channel
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published') AND {HELD} AND NOT {ENDS}
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'pending', wake_at = LEAST(held.until + {SPREAD}, held.give_up_at), give_up_at = held.give_up_at
FROM held WHERE d.id = held.id
RETURNING CASE WHEN held.whole_channel THEN 'channel_held' ELSE 'destination_held' END
""",
    {**RULES, "key": "text", "now": "timestamptz", "id": "uuid", "max_wait": "float8"},
)

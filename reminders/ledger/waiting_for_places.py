"""How many reminders wait for the end of a hold: of their destination, its breaker included, or of their tenant's whole channel.

They are `pending`, and nothing on them says why. What a hold keeps wakes within seconds of its end, so these seconds alone are read.
"""

from __future__ import annotations

from reminders.ledger.holding import HOLD_SPREAD
from reminders.ledger.statement import Statement

_SECONDS = int(HOLD_SPREAD)

# Each reminder is looked up by itself (`OFFSET 0` keeps it so): where statistics say that there are few, all would be read instead.
# Of a breaker that is half open the others are put off for some seconds at a time. A hold that was made longer lately is met by what
# waits for it once that wakes, and is put off anew.
WAITING = Statement(
    "waiting_for_places",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
holds AS MATERIALIZED (
    (SELECT hold_until AS ends FROM {{s}}.destinations WHERE hold_until > (SELECT now FROM t) ORDER BY hold_until LIMIT :holds)
    UNION ALL
    (SELECT hold_until FROM {{s}}.channel_holds WHERE hold_until > (SELECT now FROM t) ORDER BY hold_until LIMIT :holds)
    UNION ALL
    (SELECT (SELECT now FROM t) + n * interval '{_SECONDS} seconds' FROM generate_series(0, 1) AS n (n)
     WHERE EXISTS (SELECT 1 FROM {{s}}.destinations WHERE breaker_opened_at IS NOT NULL AND (hold_until > (SELECT now FROM t)) IS NOT TRUE
                   AND (timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL)))
), seconds AS MATERIALIZED (
    SELECT DISTINCT date_trunc('second', ends) + n * interval '1 second' AS at FROM holds CROSS JOIN generate_series(0, {_SECONDS}) AS n (n)
), waking AS MATERIALIZED (
    SELECT d.id, d.wake_at FROM seconds CROSS JOIN LATERAL (
        SELECT w.id, w.wake_at FROM {{s}}.due w
        WHERE w.wake_at >= seconds.at AND w.wake_at < seconds.at + interval '1 second' AND w.wake_at > (SELECT now FROM t)
          AND w.status = 'pending' ORDER BY w.wake_at LIMIT :looked_at) d
    LIMIT :looked_at
), of AS (
    SELECT COALESCE(w.wake_at BETWEEN c.hold_until AND c.hold_until + interval '{_SECONDS} seconds', false) AS channel,
           COALESCE(w.wake_at BETWEEN p.hold_until AND p.hold_until + interval '{_SECONDS} seconds', false)
           OR COALESCE(p.breaker_opened_at IS NOT NULL AND (p.hold_until > (SELECT now FROM t)) IS NOT TRUE, false) AS destination
    FROM waking w CROSS JOIN LATERAL (SELECT x.* FROM {{s}}.reminders x WHERE x.id = w.id OFFSET 0) r
    LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
    LEFT JOIN {{s}}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    WHERE r.due_at <= (SELECT now FROM t)
)
SELECT CASE WHEN channel THEN 'channel' ELSE 'destination' END AS reason, count(*) FROM of WHERE channel OR destination GROUP BY 1
""",
    {"holds": "integer", "looked_at": "integer"},
)
HOLDS, LOOKED_AT = 1000, 10_000
"""How many holds of either kind, those that end first, and how many reminders that wake then are looked at at most."""

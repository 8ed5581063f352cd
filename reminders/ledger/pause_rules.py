"""Whether a reminder is paused, and the move that holds it: what the claim, its refusal, the lease and the release share."""

from __future__ import annotations

from reminders.ledger.claim_rules import ENDS, PLACE, RULES
from reminders.ledger.statement import Statement

FITS = """(z.tenant_id IS NULL OR z.tenant_id = r.tenant_id) AND (z.channel IS NULL OR z.channel = r.channel)
     AND (z.kind IS NULL OR z.kind = r.kind) AND (z.destination_id IS NULL OR z.destination_id = r.destination_id)"""
"""Whether pause `z` covers reminder `r`."""

ALIKE = """y.tenant_id IS NOT DISTINCT FROM z.tenant_id AND y.channel IS NOT DISTINCT FROM z.channel
      AND y.kind IS NOT DISTINCT FROM z.kind AND y.destination_id IS NOT DISTINCT FROM z.destination_id"""
"""Whether pauses `y` and `z` cover exactly the same."""

COVERS = """(y.tenant_id IS NULL OR y.tenant_id = z.tenant_id) AND (y.channel IS NULL OR y.channel = z.channel)
      AND (y.kind IS NULL OR y.kind = z.kind) AND (y.destination_id IS NULL OR y.destination_id = z.destination_id)"""
"""Whether pause `y` covers all that pause `z` covers, as far as their words tell."""

# Each part by its own index.
ACTIVE = """SELECT * FROM {s}.pauses WHERE ended_at IS NULL
            UNION ALL SELECT * FROM {s}.pauses WHERE drain_until IS NOT NULL AND drained_at IS NULL"""

PAUSED = f"EXISTS (SELECT 1 FROM {{s}}.pauses z WHERE z.ended_at IS NULL AND {FITS})"

# A bound that came from waiting stands still while the row is held: what is left of it is kept, and the expiry alone
# ends it meanwhile.
WAIT_LEFT = "CASE WHEN d.give_up_at IS DISTINCT FROM picked.expires_at THEN d.give_up_at - (SELECT now FROM t) END"

HOLD_IF_PAUSED = Statement(
    "hold_if_paused",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
picked AS MATERIALIZED (
    SELECT d.id, r.expires_at, by.id AS hold_id, GREATEST(r.due_at, n.retry_at) AS due_since
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    CROSS JOIN LATERAL (
        SELECT z.id FROM {{s}}.pauses z WHERE z.ended_at IS NULL AND {FITS} ORDER BY z.paused_at LIMIT 1
    ) by
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published') AND NOT {ENDS}
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'held', wake_at = NULL, hold_id = picked.hold_id, held_at = (SELECT now FROM t), wait_left = {WAIT_LEFT},
    give_up_at = picked.expires_at, let_go_by = NULL, rated_by = d.let_go_by, due_since = COALESCE(d.due_since, picked.due_since)
FROM picked WHERE d.id = picked.id
RETURNING 'paused'
""",
    {**RULES, "key": "text", "now": "timestamptz", "id": "uuid"},
)

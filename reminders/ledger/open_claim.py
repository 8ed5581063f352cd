"""The SQL that every end of a claim shares: the lock, the guard, the answer, the attempt's record.

Every form begins by locking the reminder's row of `due` while it is `sending` under this key, then moves the delivery
row only if it is still `sending` under this claim number. A claim that was repaired or superseded finds neither and
changes nothing.
"""

from __future__ import annotations

from reminders.ledger.failing import recovered
from reminders.ledger.notices import NEWS

LOCK_TIMEOUT_MS = 500
"""How long the end of a claim waits for an application's transaction that holds the reminder's row."""

REPORT = {
    "now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "outcome": "text", "code": "integer",
    "reference": "text", "error_class": "text", "reason": "text", "duration": "integer", "decision": "text",
    "body_hash": "bytea",
}  # fmt: skip
"""The parameters of a statement that records what an attempt came to."""

T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

LOCKED = f"""
WITH {T},
locked AS MATERIALIZED (
    SELECT id, attempts, cancel_requested_at IS NOT NULL AS cancel_requested FROM {{s}}.due
    WHERE id = :id AND delivery_key = :key AND status = 'sending'
    FOR NO KEY UPDATE
)"""

GUARD = "n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'"

ATTEMPT = """attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision, ready_at)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, :outcome, :code, :reference, :error_class,
           :reason, :duration, :decision, (SELECT d.ready_at FROM {s}.due d WHERE d.id = delivery.reminder_id)
    FROM delivery
)"""

# Uncertainty is sticky: an unknown outcome sets its time once, and only a confirmed delivery or a decisive look-up
# clears it. The time is the claim's: the far side may remember the key from the call on, and a frozen worker may report
# days later.
UNCERTAIN = """uncertain_since = CASE WHEN :outcome = 'unknown' THEN COALESCE(n.uncertain_since, n.claimed_at)
                           WHEN NOT :certain THEN n.uncertain_since END"""
CERTAIN = {"certain": "boolean"}
"""The parameter of `UNCERTAIN`, beside those of a report."""

# What was blocked was not tried: it counts as no attempt.
BURNT = "CASE :outcome WHEN 'blocked' THEN 0 ELSE 1 END"

# A requested cancellation stops the move, and so does an earlier attempt's late success; but only a claim that still
# stands may be told of them.
ANSWER = (
    f"""SELECT CASE WHEN delivery.claim_number IS NOT NULL THEN 'done' ELSE instead.answer END, {NEWS}
FROM locked LEFT JOIN delivery ON true LEFT JOIN LATERAL (
    SELECT CASE WHEN n.confirmed_late_at IS NOT NULL THEN 'confirmed late' ELSE 'cancel requested' END AS answer
    FROM {{s}}.notification_deliveries n
    WHERE delivery.claim_number IS NULL AND (locked.cancel_requested OR n.confirmed_late_at IS NOT NULL) AND """
    + GUARD
    + """
) instead ON true
WHERE delivery.claim_number IS NOT NULL OR instead.answer IS NOT NULL
"""
)

END_DELIVERED = f"""gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id RETURNING due.destination_id
), {recovered("SELECT destination_id FROM gone")}
UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 'done'
"""

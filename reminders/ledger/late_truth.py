"""What an attempt reports after its claim has lapsed: its record is completed, and a success is not forgotten."""

from __future__ import annotations

from reminders.ledger.failing import recovered
from reminders.ledger.open_claim import ATTEMPT, END_DELIVERED, GUARD, LOCKED, REPORT
from reminders.ledger.statement import Statement

# Of what was purged meanwhile no record is begun anew. Of a user who was erased meanwhile the proof is kept, and none of the words.
LATE = Statement(
    "record_late",
    """
WITH erased AS MATERIALIZED (
    SELECT 1 FROM {s}.reminders WHERE id = :id AND erased_at IS NOT NULL
), said AS MATERIALIZED (
    SELECT CASE WHEN :reason <> '' AND EXISTS (SELECT 1 FROM erased) THEN 'erased' ELSE :reason END AS reason,
           CASE WHEN strpos(lower(:reference), lower(:destination)) > 0 AND EXISTS (SELECT 1 FROM erased) THEN 'erased'
                ELSE :reference END AS reference
), attempt AS (
    INSERT INTO {s}.delivery_attempts AS a
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    SELECT :key, :number, :claimed_at, :id, :worker, :outcome, :code, said.reference, :error_class, said.reason, :duration,
           'late: the claim had lapsed'
    FROM said
    WHERE EXISTS (SELECT 1 FROM {s}.notification_deliveries WHERE delivery_key = :key)
    ON CONFLICT (delivery_key, claim_number, claimed_at) DO UPDATE
    SET outcome = EXCLUDED.outcome, status_code = EXCLUDED.status_code, provider_reference = EXCLUDED.provider_reference,
        error_class = EXCLUDED.error_class, reason = EXCLUDED.reason, duration_ms = EXCLUDED.duration_ms,
        decision = EXCLUDED.decision || CASE a.error_class WHEN 'worker_shut_down' THEN ' in a shutdown' ELSE '' END
    WHERE a.error_class IN ('worker_lost', 'worker_shut_down')
), stamp AS (
    UPDATE {s}.notification_deliveries
    SET confirmed_late_at = COALESCE(confirmed_late_at, COALESCE(:now, clock_timestamp())),
        provider_reference = COALESCE(provider_reference, (SELECT reference FROM said))
    WHERE delivery_key = :key AND :outcome = 'delivered' AND status <> 'delivered'
), """
    + recovered("SELECT destination_id FROM {s}.reminders WHERE id = :id AND :outcome = 'delivered'")
    + """
SELECT 1
""",
    {
        **{name: kind for name, kind in REPORT.items() if name not in {"decision", "body_hash"}},
        "claimed_at": "timestamptz",
        "worker": "text",
        "destination": "text",
    },
)

# The attempt that ends here came to something else, but an earlier one has reported its success meanwhile.
CONFIRMED = Statement(
    "finalize_confirmed",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {GUARD} AND n.confirmed_late_at IS NOT NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {ATTEMPT}, {END_DELIVERED}""",
    REPORT,
)

# What was given up as unknown is known now: the letter closes by itself. Somebody who holds a row is not waited for;
# the stamp stays, and whoever looks next finds it.
SETTLE = Statement(
    "settle_confirmed",
    """
WITH picked AS MATERIALIZED (
    SELECT l.id AS letter_id, r.id, r.delivery_key
    FROM {s}.reminders r
    JOIN {s}.dead_letters l ON l.reminder_id = r.id AND l.delivery_key = r.delivery_key AND l.state = 'open'
    JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
    WHERE r.id = :id AND r.delivery_key = :key AND r.status = 'dead' AND n.confirmed_late_at IS NOT NULL
    FOR NO KEY UPDATE OF l, r SKIP LOCKED
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, letter_kind = NULL, finished_at = clock_timestamp()
    FROM picked WHERE n.delivery_key = picked.delivery_key
), ended AS (
    UPDATE {s}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = clock_timestamp()
    FROM picked WHERE r.id = picked.id
)
UPDATE {s}.dead_letters l
SET state = 'resolved', resolution = 'delivered', closed_at = clock_timestamp(), actor = :actor, action_reason = 'its success was reported late'
FROM picked WHERE l.id = picked.letter_id
RETURNING 1
""",
    {"id": "uuid", "key": "text", "actor": "text"},
)

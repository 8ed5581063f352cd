-- finalize_delivered at 543ddd7
-- {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "outcome": "text", "code": "integer", "reference": "text", "error_class": "text", "reason": "text", "duration": "integer", "decision": "text", "body_hash": "bytea"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
locked AS MATERIALIZED (
    SELECT id, attempts, cancel_requested_at IS NOT NULL AS cancel_requested FROM {s}.due
    WHERE id = :id AND delivery_key = :key AND status = 'sending'
    FOR NO KEY UPDATE
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = 'delivered', provider_reference = :reference, uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, :outcome, :code, :reference, :error_class,
           :reason, :duration, :decision
    FROM delivery
), gone AS (
    DELETE FROM {s}.due USING delivery WHERE due.id = delivery.reminder_id RETURNING due.destination_id
), recovered AS (
    UPDATE {s}.destinations
    SET failing_since = NULL, timed_out_at = NULL,
        breaker_opened_at = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_opened_at END,
        breaker_times = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_times ELSE 0 END,
        probe_id = CASE WHEN probe_id IS DISTINCT FROM :id THEN probe_id END
    WHERE id = (SELECT destination_id FROM gone) AND (failing_since IS NOT NULL OR timed_out_at IS NOT NULL OR probe_id = :id)
)
UPDATE {s}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 'done'

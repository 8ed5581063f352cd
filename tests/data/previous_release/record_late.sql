-- record_late at 543ddd7
-- {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "outcome": "text", "code": "integer", "reference": "text", "error_class": "text", "reason": "text", "duration": "integer", "claimed_at": "timestamptz", "worker": "text"}
WITH attempt AS (
    INSERT INTO {s}.delivery_attempts AS a
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    SELECT :key, :number, :claimed_at, :id, :worker, :outcome, :code, :reference, :error_class, :reason, :duration,
           'late: the claim had lapsed'
    WHERE EXISTS (SELECT 1 FROM {s}.notification_deliveries WHERE delivery_key = :key)
    ON CONFLICT (delivery_key, claim_number, claimed_at) DO UPDATE
    SET outcome = EXCLUDED.outcome, status_code = EXCLUDED.status_code, provider_reference = EXCLUDED.provider_reference,
        error_class = EXCLUDED.error_class, reason = EXCLUDED.reason, duration_ms = EXCLUDED.duration_ms,
        decision = EXCLUDED.decision || CASE a.error_class WHEN 'worker_shut_down' THEN ' in a shutdown' ELSE '' END
    WHERE a.error_class IN ('worker_lost', 'worker_shut_down')
), stamp AS (
    UPDATE {s}.notification_deliveries
    SET confirmed_late_at = COALESCE(confirmed_late_at, COALESCE(:now, clock_timestamp())),
        provider_reference = COALESCE(provider_reference, :reference)
    WHERE delivery_key = :key AND :outcome = 'delivered' AND status <> 'delivered'
), recovered AS (
    UPDATE {s}.destinations
    SET failing_since = NULL, timed_out_at = NULL,
        breaker_opened_at = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_opened_at END,
        breaker_times = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_times ELSE 0 END,
        probe_id = CASE WHEN probe_id IS DISTINCT FROM :id THEN probe_id END
    WHERE id = (SELECT destination_id FROM {s}.reminders WHERE id = :id AND :outcome = 'delivered') AND (failing_since IS NOT NULL OR timed_out_at IS NOT NULL OR probe_id = :id)
)
SELECT 1

-- repair_bury at 543ddd7
-- {"now": "timestamptz", "keys": "text[]", "excused": "text[]", "letter": "text", "letter_ids": "uuid[]", "reason": "text", "decision": "text"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = CASE :letter WHEN 'unknown' THEN 'unknown' ELSE 'dead' END, letter_kind = :letter,
        uncertain_since = COALESCE(n.uncertain_since, n.claimed_at), finished_at = (SELECT now FROM t)
    WHERE n.delivery_key = ANY(:keys) AND n.status = 'sending'
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, 'unknown',
           CASE WHEN delivery_key = ANY(:excused) THEN 'worker_shut_down' ELSE 'worker_lost' END,
           CASE WHEN delivery_key = ANY(:excused) THEN 'the worker was shut down before it recorded an outcome'
                ELSE 'the worker ended before it recorded an outcome' END,
           :decision
    FROM delivery
    ON CONFLICT (delivery_key, claim_number, claimed_at) DO NOTHING
), gone AS (
    DELETE FROM {s}.due USING delivery WHERE due.id = delivery.reminder_id RETURNING due.id, due.attempts
), letter AS (
    INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT l.letter_id, gone.id, l.key, :letter,
           CASE WHEN l.key = ANY(:excused) THEN 'worker_shut_down' ELSE 'worker_lost' END, :reason,
           gone.attempts + CASE WHEN l.key = ANY(:excused) THEN 0 ELSE 1 END
    FROM unnest(:letter_ids, :keys) AS l (letter_id, key)
    JOIN delivery ON delivery.delivery_key = l.key JOIN gone ON gone.id = delivery.reminder_id
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
)
UPDATE {s}.reminders r SET status = 'dead', last_outcome = 'unknown', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 1

-- repair_repeat at 543ddd7
-- {"now": "timestamptz", "keys": "text[]", "excused": "text[]", "decision": "text"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = 'retrying', retry_at = (SELECT now FROM t), uncertain_since = COALESCE(n.uncertain_since, n.claimed_at)
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
), noted AS (
    UPDATE {s}.reminders r SET last_outcome = 'unknown' FROM delivery WHERE r.id = delivery.reminder_id
), deaths AS (
    SELECT reminder_id, CASE WHEN delivery_key = ANY(:excused) THEN 0 ELSE 1 END AS count FROM delivery
), turns AS (
    SELECT deaths.*, count * (row_number() OVER (PARTITION BY count, d.destination_id ORDER BY d.wake_at) - 1) AS turn
    FROM deaths JOIN {s}.due d ON d.id = deaths.reminder_id
)
UPDATE {s}.due d
SET status = 'pending', attempts = d.attempts + turns.count,
    wake_at = LEAST((SELECT now FROM t) + turns.turn * interval '1.0 seconds', d.give_up_at),
    alone_deaths = d.alone_deaths + CASE WHEN d.route = 'alone' THEN turns.count ELSE 0 END,
    route = CASE turns.count WHEN 0 THEN d.route ELSE 'alone' END
FROM turns WHERE d.id = turns.reminder_id
RETURNING 1

-- release_not_called at 543ddd7
-- {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "seconds": "float8", "letter_id": "uuid"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
locked AS MATERIALIZED (
    SELECT id, attempts, cancel_requested_at IS NOT NULL AS cancel_requested FROM {s}.due
    WHERE id = :id AND delivery_key = :key AND status = 'sending'
    FOR NO KEY UPDATE
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = verdict.status, retry_at = (SELECT now FROM t) + make_interval(secs => :seconds),
        finished_at = CASE WHEN verdict.status <> 'retrying' THEN (SELECT now FROM t) END,
        letter_kind = CASE WHEN verdict.status = 'unknown' THEN 'unknown' END, budget_started_at = CASE WHEN locked.attempts > 0 THEN n.budget_started_at END,
    given_back = n.given_back + 1
    FROM locked JOIN LATERAL (
        SELECT n.delivery_key,
               CASE WHEN NOT locked.cancel_requested OR n.confirmed_late_at IS NOT NULL THEN 'retrying'
                    WHEN n.uncertain_since IS NOT NULL THEN 'unknown'
                    ELSE 'cancelled' END AS status
        FROM {s}.notification_deliveries n WHERE n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'
    ) verdict ON true
    WHERE n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'
    RETURNING n.reminder_id, n.delivery_key, n.retry_at, n.status, locked.attempts
), gone AS (
    DELETE FROM {s}.due USING delivery WHERE due.id = delivery.reminder_id AND delivery.status <> 'retrying'
), letter AS (
    INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, reminder_id, delivery_key, 'unknown', 'cancelled_while_uncertain',
           'cancelled while the outcome of an earlier attempt is unknown', attempts
    FROM delivery WHERE status = 'unknown'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), ended AS (
    UPDATE {s}.reminders r
    SET status = CASE delivery.status WHEN 'unknown' THEN 'dead' ELSE 'cancelled' END, finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id AND delivery.status <> 'retrying'
), woken AS (
    UPDATE {s}.due d
    SET status = 'pending', wake_at = LEAST(delivery.retry_at, r.expires_at, d.give_up_at), cancel_requested_at = NULL
    FROM delivery JOIN {s}.reminders r ON r.id = delivery.reminder_id
    WHERE d.id = delivery.reminder_id AND delivery.status = 'retrying'
)
SELECT 'done' FROM delivery

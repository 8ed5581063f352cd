-- lock_lapsed at 543ddd7
-- {"now": "timestamptz", "limit": "integer"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, d.alone_deaths, d.route, d.cancel_requested_at
    FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
    WHERE d.status = 'sending' AND d.wake_at <= (SELECT now FROM t)
    ORDER BY d.wake_at LIMIT :limit
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
)
SELECT h.id::text, h.delivery_key, n.claim_number, n.status, n.on_unknown, h.attempts, h.alone_deaths, h.route,
       h.cancel_requested_at IS NOT NULL,
       COALESCE(extract(epoch FROM (SELECT now FROM t) - n.budget_started_at - COALESCE(n.held_for, '0')), 0)::float8,
       COALESCE(extract(epoch FROM n.retry_at - (SELECT now FROM t)), 0)::float8,
       n.letter_kind, n.confirmed_late_at IS NOT NULL, s.worker IS NOT NULL
FROM held h JOIN {s}.notification_deliveries n ON n.delivery_key = h.delivery_key
LEFT JOIN {s}.shutdowns s ON s.worker = n.worker

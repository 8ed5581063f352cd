-- claimed_with at 543ddd7
-- {"id": "uuid", "key": "text", "token": "uuid"}
WITH delivery AS (
    SELECT * FROM {s}.notification_deliveries
    WHERE delivery_key = :key AND claim_token = :token AND status = 'sending'
), r AS (
    SELECT r.*, d.attempts, COALESCE(qc.retry_delays, qt.retry_delays) AS retry_delays, NULLIF(concat(p.secret_mark, '/', qc.secret_mark), '/') AS secret_mark
    FROM {s}.due d
    JOIN {s}.reminders r ON r.id = d.id
    LEFT JOIN {s}.destinations p ON p.id = r.destination_id
    LEFT JOIN {s}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {s}.tenant_policies qc ON qc.tenant_id = r.tenant_id AND qc.channel = r.channel
    LEFT JOIN {s}.tenant_policies qt ON qt.tenant_id = r.tenant_id AND qt.channel = ''
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
    WHERE d.id = :id AND d.delivery_key = :key AND d.status = 'sending'
)
SELECT d.claim_number, d.claimed_at, d.on_unknown, d.uncertain_since, d.body_format, d.body_hash, d.template_id::text,
       extract(epoch FROM d.claimed_at - d.budget_started_at - COALESCE(d.held_for, '0'))::float8, r.attempts, r.retry_delays, r.secret_mark,
       r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.destination, r.due_at, r.zone, r.reference,
       r.slot, r.data::text
FROM delivery d CROSS JOIN r

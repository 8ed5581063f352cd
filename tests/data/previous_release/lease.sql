-- lease at 543ddd7
-- {"now": "timestamptz", "limit": "integer", "seconds": "float8", "token": "uuid", "max_wait": "float8", "with_retries": "boolean", "dispatcher": "text"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), found AS MATERIALIZED (
    SELECT d.id, d.wake_at, p.hold_until AS held_until FROM {s}.due d LEFT JOIN {s}.destinations p ON p.id = d.destination_id AND p.hold_until > (SELECT now FROM t)
    WHERE d.wake_at <= (SELECT now FROM t) AND d.status IN ('pending', 'leased', 'published')
      AND (d.give_up_at IS NULL OR d.give_up_at > (SELECT now FROM t)) AND (:with_retries OR d.route <> 'retry') AND (NOT (SELECT (EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE dispatcher < :dispatcher)
    OR EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE dispatcher > :dispatcher)
    OR COALESCE((SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole) <> :dispatcher, false))) OR (COALESCE((SELECT q.dispatcher FROM {s}.tenant_policies q
     WHERE q.tenant_id = split_part(d.lane, chr(31), 1) AND q.channel = ''), (SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole), :dispatcher) = :dispatcher))
    ORDER BY d.wake_at LIMIT :limit
    FOR NO KEY UPDATE OF d SKIP LOCKED
), picked AS (
    SELECT f.*, paused.hold_id, paused.drain_until, paused.expires_at FROM found f LEFT JOIN LATERAL (
        SELECT z.id AS hold_id, z.drain_until, r.expires_at
        FROM {s}.reminders r CROSS JOIN (SELECT * FROM {s}.pauses WHERE ended_at IS NULL
            UNION ALL SELECT * FROM {s}.pauses WHERE drain_until IS NOT NULL AND drained_at IS NULL) z
        WHERE EXISTS (SELECT * FROM {s}.pauses WHERE ended_at IS NULL
            UNION ALL SELECT * FROM {s}.pauses WHERE drain_until IS NOT NULL AND drained_at IS NULL) AND r.id = f.id AND (z.drain_until IS NULL OR f.wake_at <= z.drain_until) AND (z.tenant_id IS NULL OR z.tenant_id = r.tenant_id) AND (z.channel IS NULL OR z.channel = r.channel)
     AND (z.kind IS NULL OR z.kind = r.kind) AND (z.destination_id IS NULL OR z.destination_id = r.destination_id)
        ORDER BY z.drain_until IS NOT NULL, z.paused_at LIMIT 1
    ) paused ON true
)
UPDATE {s}.due d
SET status = CASE WHEN picked.hold_id IS NOT NULL THEN 'held' WHEN picked.held_until IS NULL THEN 'leased' ELSE 'pending' END,
    lease_token = :token,
    wake_at = CASE WHEN picked.hold_id IS NULL
                   THEN LEAST(COALESCE(picked.held_until + random() * interval '5.0 seconds', (SELECT now FROM t) + make_interval(secs => :seconds)),
                              d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) END,
    give_up_at = CASE WHEN picked.hold_id IS NOT NULL THEN picked.expires_at
                      WHEN picked.held_until IS NULL THEN d.give_up_at
                      ELSE LEAST(d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) END,
    epoch = CASE WHEN EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE epoch IS NOT NULL)
    THEN (SELECT q.epoch FROM {s}.tenant_policies q
     WHERE q.tenant_id = split_part(d.lane, chr(31), 1) AND q.channel = '') END, hold_id = picked.hold_id, held_at = CASE WHEN picked.drain_until IS NOT NULL THEN picked.wake_at WHEN picked.hold_id IS NOT NULL THEN (SELECT now FROM t) END,
    wait_left = CASE WHEN picked.hold_id IS NOT NULL THEN CASE WHEN d.give_up_at IS DISTINCT FROM picked.expires_at THEN d.give_up_at - (SELECT now FROM t) END END
FROM picked WHERE d.id = picked.id
RETURNING d.id::text, d.delivery_key, d.route, d.lane, picked.wake_at, d.status, NULL

-- refusal at 543ddd7
-- {"look_ups": "text[]", "window": "float8", "dispatcher": "text", "new_tenants": "text", "key": "text", "now": "timestamptz", "id": "uuid"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT r.status, d.status, d.delivery_key = :key, r.delivery_key = :key, COALESCE(r.expires_at <= (SELECT now FROM t) OR d.give_up_at <= (SELECT now FROM t)
            OR n.confirmed_late_at IS NOT NULL OR p.disabled_at IS NOT NULL
            OR n.uncertain_since IS NOT NULL
               AND CASE WHEN qt.mode = 'shadow' THEN true ELSE CASE CASE
        WHEN qc.on_unknown = 'review' OR qt.on_unknown = 'review' THEN 'review'
        WHEN COALESCE(p.deduplicates, r.deduplicates) AND qc.on_unknown IS NULL AND qt.on_unknown IS NULL THEN 'repeat'
        WHEN r.channel = ANY(:look_ups) OR n.on_unknown = 'look_up' THEN 'look_up'
        ELSE 'review' END
                   WHEN 'repeat' THEN n.uncertain_since <= (SELECT now FROM t) - make_interval(secs => :window)
                   WHEN 'look_up' THEN false
                   ELSE true END END OR (COALESCE(
        (SELECT x.id FROM {s}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.user_id = r.user_id
           AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT x.id FROM {s}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.destination_id = r.destination_id
           AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT CASE WHEN NOT f.allowed THEN f.id END FROM {s}.preferences f
         WHERE f.ended_at IS NULL AND f.tenant_id = r.tenant_id AND f.user_id = r.user_id
           AND f.kind IN ('', r.kind) AND f.channel IN ('', r.channel)
         ORDER BY f.kind = '', f.channel = '' LIMIT 1)) IS NOT NULL), false), EXISTS (SELECT 1 FROM {s}.pauses z WHERE z.ended_at IS NULL AND (z.tenant_id IS NULL OR z.tenant_id = r.tenant_id) AND (z.channel IS NULL OR z.channel = r.channel)
     AND (z.kind IS NULL OR z.kind = r.kind) AND (z.destination_id IS NULL OR z.destination_id = r.destination_id)), (COALESCE(GREATEST(p.hold_until, c.hold_until) > (SELECT now FROM t), false) OR p.breaker_opened_at IS NOT NULL AND p.probe_id IS DISTINCT FROM r.id AND qt.mode IS DISTINCT FROM 'shadow'), (((SELECT true FROM {s}.recipients u
          WHERE u.tenant_id = r.tenant_id AND u.user_id = r.user_id AND u.quiet_from IS NOT NULL
            AND COALESCE(u.clear_until <= (SELECT now FROM t), true)
            AND (SELECT k.critical FROM {s}.kind_policies k WHERE k.tenant_id = r.tenant_id AND k.kind = r.kind) IS NOT TRUE
         ) IS NOT NULL) AND NOT (n.uncertain_since IS NOT NULL AND CASE
        WHEN qc.on_unknown = 'review' OR qt.on_unknown = 'review' THEN 'review'
        WHEN COALESCE(p.deduplicates, r.deduplicates) AND qc.on_unknown IS NULL AND qt.on_unknown IS NULL THEN 'repeat'
        WHEN r.channel = ANY(:look_ups) OR n.on_unknown = 'look_up' THEN 'look_up'
        ELSE 'review' END = 'look_up')),
       (COALESCE(qt.dispatcher, (SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole), :dispatcher) = :dispatcher), (d.epoch IS NOT DISTINCT FROM qt.epoch), r.tenant_id, qt.mode, COALESCE(qt.mode, :new_tenants)
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
    LEFT JOIN {s}.destinations p ON p.id = r.destination_id
    LEFT JOIN {s}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {s}.tenant_policies qc ON qc.tenant_id = r.tenant_id AND qc.channel = r.channel
    LEFT JOIN {s}.tenant_policies qt ON qt.tenant_id = r.tenant_id AND qt.channel = ''
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE r.id = :id

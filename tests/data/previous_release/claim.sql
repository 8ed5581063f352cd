-- claim at 543ddd7
-- {"look_ups": "text[]", "window": "float8", "dispatcher": "text", "new_tenants": "text", "key": "text", "now": "timestamptz", "id": "uuid", "seconds": "float8", "token": "uuid", "worker": "text", "formats": "jsonb", "templated": "text[]"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT id, delivery_key, attempts, give_up_at, epoch FROM {s}.due
    WHERE id = :id AND delivery_key = :key AND status IN ('leased', 'published')
    FOR NO KEY UPDATE SKIP LOCKED
), r AS MATERIALIZED (
    SELECT r.*, d.attempts, CASE
        WHEN qc.on_unknown = 'review' OR qt.on_unknown = 'review' THEN 'review'
        WHEN COALESCE(p.deduplicates, r.deduplicates) AND qc.on_unknown IS NULL AND qt.on_unknown IS NULL THEN 'repeat'
        WHEN r.channel = ANY(:look_ups) OR n.on_unknown = 'look_up' THEN 'look_up'
        ELSE 'review' END AS on_unknown, COALESCE(qc.retry_delays, qt.retry_delays) AS retry_delays, NULLIF(concat(p.secret_mark, '/', qc.secret_mark), '/') AS secret_mark,
           CASE WHEN n.template_id IS NULL AND r.channel = ANY(:templated) THEN (
        SELECT a.template_id
        FROM (SELECT lower(replace((SELECT u.locale FROM {s}.recipients u WHERE u.tenant_id = r.tenant_id AND u.user_id = r.user_id), '_', '-')) AS locale) said
        JOIN {s}.active_templates a ON a.tenant_id = ANY(ARRAY[r.tenant_id, '']) AND a.kind = r.kind AND a.channel = r.channel
             AND a.locale = ANY(ARRAY['', said.locale, split_part(said.locale, '-', 1),
                                      split_part(said.locale, '-', 1) || '-' || split_part(said.locale, '-', 2)])
        ORDER BY a.tenant_id = '', length(a.locale) DESC
        LIMIT 1) END AS chosen_template
    FROM held d
    JOIN {s}.reminders r ON r.id = d.id
    LEFT JOIN {s}.destinations p ON p.id = r.destination_id
    LEFT JOIN {s}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {s}.tenant_policies qc ON qc.tenant_id = r.tenant_id AND qc.channel = r.channel
    LEFT JOIN {s}.tenant_policies qt ON qt.tenant_id = r.tenant_id AND qt.channel = ''
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
    WHERE ((COALESCE(qt.mode, :new_tenants) = 'live') AND (COALESCE(qt.dispatcher, (SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole), :dispatcher) = :dispatcher) AND (d.epoch IS NOT DISTINCT FROM qt.epoch)) AND NOT COALESCE(r.expires_at <= (SELECT now FROM t) OR d.give_up_at <= (SELECT now FROM t)
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
         ORDER BY f.kind = '', f.channel = '' LIMIT 1)) IS NOT NULL), false) AND NOT (COALESCE(GREATEST(p.hold_until, c.hold_until) > (SELECT now FROM t), false) OR p.breaker_opened_at IS NOT NULL AND p.probe_id IS DISTINCT FROM r.id AND qt.mode IS DISTINCT FROM 'shadow') AND NOT EXISTS (SELECT 1 FROM {s}.pauses z WHERE z.ended_at IS NULL AND (z.tenant_id IS NULL OR z.tenant_id = r.tenant_id) AND (z.channel IS NULL OR z.channel = r.channel)
     AND (z.kind IS NULL OR z.kind = r.kind) AND (z.destination_id IS NULL OR z.destination_id = r.destination_id)) AND NOT (((SELECT true FROM {s}.recipients u
          WHERE u.tenant_id = r.tenant_id AND u.user_id = r.user_id AND u.quiet_from IS NOT NULL
            AND COALESCE(u.clear_until <= (SELECT now FROM t), true)
            AND (SELECT k.critical FROM {s}.kind_policies k WHERE k.tenant_id = r.tenant_id AND k.kind = r.kind) IS NOT TRUE
         ) IS NOT NULL) AND NOT (n.uncertain_since IS NOT NULL AND CASE
        WHEN qc.on_unknown = 'review' OR qt.on_unknown = 'review' THEN 'review'
        WHEN COALESCE(p.deduplicates, r.deduplicates) AND qc.on_unknown IS NULL AND qt.on_unknown IS NULL THEN 'repeat'
        WHEN r.channel = ANY(:look_ups) OR n.on_unknown = 'look_up' THEN 'look_up'
        ELSE 'review' END = 'look_up'))
), moved AS (
    UPDATE {s}.due d
    SET status = 'sending', wake_at = (SELECT now FROM t) + make_interval(secs => :seconds)
    FROM r WHERE d.id = r.id
    RETURNING d.id
), delivery AS (
    INSERT INTO {s}.notification_deliveries AS n
        (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, claimed_until, worker, on_unknown,
         body_format, template_id, budget_started_at, given_back)
    SELECT :key, r.id, 'sending', 1, :token, (SELECT now FROM t), (SELECT now FROM t) + make_interval(secs => :seconds),
           :worker, r.on_unknown, COALESCE((:formats ->> r.channel)::integer, 0), r.chosen_template, (SELECT now FROM t), 0
    FROM r JOIN moved ON moved.id = r.id
    ON CONFLICT (delivery_key) DO UPDATE
    SET status = 'sending', claim_number = n.claim_number + 1, claim_token = EXCLUDED.claim_token,
        claimed_at = EXCLUDED.claimed_at, claimed_until = EXCLUDED.claimed_until, worker = EXCLUDED.worker,
        on_unknown = EXCLUDED.on_unknown, template_id = COALESCE(n.template_id, EXCLUDED.template_id), retry_at = NULL, letter_kind = NULL, finished_at = NULL,
        budget_started_at = COALESCE(n.budget_started_at, EXCLUDED.budget_started_at),
        held_for = CASE WHEN n.budget_started_at IS NOT NULL THEN n.held_for END
    RETURNING n.*
)
SELECT d.claim_number, d.claimed_at, d.on_unknown, d.uncertain_since, d.body_format, d.body_hash, d.template_id::text,
       extract(epoch FROM d.claimed_at - d.budget_started_at - COALESCE(d.held_for, '0'))::float8, r.attempts, r.retry_delays, r.secret_mark,
       r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.destination, r.due_at, r.zone, r.reference,
       r.slot, r.data::text
FROM delivery d CROSS JOIN r

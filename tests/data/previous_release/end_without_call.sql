-- end_without_call at 543ddd7
-- {"look_ups": "text[]", "window": "float8", "now": "timestamptz", "ids": "uuid[]", "letter_ids": "uuid[]"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
found AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, wanted.letter_id, r.expires_at <= (SELECT now FROM t) AS expired,
           d.give_up_at <= (SELECT now FROM t) AS given_up, p.disabled_at IS NOT NULL AS disabled,
           n.uncertain_since IS NOT NULL AS uncertain, n.confirmed_late_at IS NOT NULL AS confirmed,
           COALESCE(
        (SELECT x.id FROM {s}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.user_id = r.user_id
           AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT x.id FROM {s}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.destination_id = r.destination_id
           AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT CASE WHEN NOT f.allowed THEN f.id END FROM {s}.preferences f
         WHERE f.ended_at IS NULL AND f.tenant_id = r.tenant_id AND f.user_id = r.user_id
           AND f.kind IN ('', r.kind) AND f.channel IN ('', r.channel)
         ORDER BY f.kind = '', f.channel = '' LIMIT 1)) AS suppressed_by, COALESCE(qt.mode = 'shadow', false) AS shadow
    FROM unnest(:ids, :letter_ids) AS wanted (id, letter_id)
    JOIN {s}.due d ON d.id = wanted.id
    JOIN {s}.reminders r ON r.id = d.id
    LEFT JOIN {s}.destinations p ON p.id = r.destination_id
    LEFT JOIN {s}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {s}.tenant_policies qc ON qc.tenant_id = r.tenant_id AND qc.channel = r.channel
    LEFT JOIN {s}.tenant_policies qt ON qt.tenant_id = r.tenant_id AND qt.channel = ''
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
    WHERE d.status IN ('pending', 'leased', 'published', 'held') AND COALESCE(r.expires_at <= (SELECT now FROM t) OR d.give_up_at <= (SELECT now FROM t)
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
         ORDER BY f.kind = '', f.channel = '' LIMIT 1)) IS NOT NULL), false)
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
), ended AS (
    SELECT *, CASE WHEN confirmed THEN 'delivered' WHEN NOT uncertain AND expired THEN 'expired'
                   WHEN NOT uncertain AND suppressed_by IS NOT NULL THEN 'suppressed'
                   WHEN NOT uncertain AND shadow THEN 'shadowed' ELSE 'dead' END AS status,
           CASE WHEN uncertain THEN 'unknown' ELSE 'destination' END AS letter,
           CASE WHEN expired THEN 'expired while the outcome of an earlier attempt is unknown'
                WHEN suppressed_by IS NOT NULL
                THEN 'suppressed while the outcome of an earlier attempt is unknown: ' || COALESCE(
        (SELECT x.reason FROM {s}.suppressions x WHERE x.id = suppressed_by),
        (SELECT 'the user does not want ' || CASE WHEN f.kind = '' THEN 'anything' ELSE f.kind END
                || CASE WHEN f.channel = '' THEN '' ELSE ' by ' || f.channel END
         FROM {s}.preferences f WHERE f.id = suppressed_by))
                WHEN disabled THEN 'its destination is disabled'
                WHEN given_up THEN 'its destination was not to be called for as long as a reminder may wait'
                WHEN shadow THEN 'its tenant is in shadow while the outcome of an earlier attempt is unknown'
                ELSE 'the outcome of an earlier attempt is unknown and the destination may not know its key any more' END AS why
    FROM found
), gone AS (
    DELETE FROM {s}.due USING ended WHERE due.id = ended.id
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = CASE WHEN ended.status = 'dead' AND ended.uncertain THEN 'unknown' WHEN ended.status = 'shadowed' THEN 'superseded'
                      ELSE ended.status END,
        letter_kind = CASE ended.status WHEN 'dead' THEN ended.letter END,
        uncertain_since = CASE ended.status WHEN 'dead' THEN n.uncertain_since END, finished_at = (SELECT now FROM t)
    FROM ended WHERE n.delivery_key = ended.delivery_key
), letter AS (
    INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT letter_id, id, delivery_key, letter,
           CASE WHEN expired THEN 'expired_while_uncertain' WHEN suppressed_by IS NOT NULL THEN 'suppressed_while_uncertain'
                WHEN disabled THEN 'destination_disabled'
                WHEN given_up THEN 'waited_too_long' WHEN shadow THEN 'shadowed_while_uncertain' ELSE 'not_repeatable' END,
           why,
           attempts
    FROM ended WHERE status = 'dead'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), shadow AS (
    INSERT INTO {s}.shadow_deliveries AS w
        (delivery_key, reminder_id, tenant_id, user_id, kind, channel, reference, slot, destination_id, decision, why, body_hash,
         template_id, due_at, decided_at, lateness, worker)
    SELECT r.delivery_key, r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.destination_id,
           CASE ended.status WHEN 'expired' THEN 'expired' WHEN 'suppressed' THEN 'suppressed' ELSE 'undeliverable' END,
           CASE ended.status WHEN 'expired' THEN 'it had expired' WHEN 'suppressed' THEN COALESCE(
        (SELECT x.reason FROM {s}.suppressions x WHERE x.id = ended.suppressed_by),
        (SELECT 'the user does not want ' || CASE WHEN f.kind = '' THEN 'anything' ELSE f.kind END
                || CASE WHEN f.channel = '' THEN '' ELSE ' by ' || f.channel END
         FROM {s}.preferences f WHERE f.id = ended.suppressed_by)) ELSE ended.why END,
           NULL, NULL, r.due_at, (SELECT now FROM t), (SELECT now FROM t) - r.due_at, NULL
    FROM ended JOIN {s}.reminders r ON r.id = ended.id
    WHERE ended.shadow AND ended.status IN ('expired', 'suppressed', 'shadowed')
    ON CONFLICT (delivery_key) DO UPDATE
    SET decision = EXCLUDED.decision, why = EXCLUDED.why, body_hash = EXCLUDED.body_hash, template_id = EXCLUDED.template_id,
        due_at = EXCLUDED.due_at, decided_at = EXCLUDED.decided_at, lateness = EXCLUDED.lateness, worker = EXCLUDED.worker
)
UPDATE {s}.reminders r
SET status = ended.status, finished_at = (SELECT now FROM t),
    last_outcome = CASE ended.status WHEN 'delivered' THEN 'delivered' ELSE r.last_outcome END,
    suppressed_by = CASE ended.status WHEN 'suppressed' THEN ended.suppressed_by END,
    suppressed_reason = CASE ended.status WHEN 'suppressed' THEN COALESCE(
        (SELECT x.reason FROM {s}.suppressions x WHERE x.id = ended.suppressed_by),
        (SELECT 'the user does not want ' || CASE WHEN f.kind = '' THEN 'anything' ELSE f.kind END
                || CASE WHEN f.channel = '' THEN '' ELSE ' by ' || f.channel END
         FROM {s}.preferences f WHERE f.id = ended.suppressed_by)) END
FROM ended WHERE r.id = ended.id
RETURNING r.status

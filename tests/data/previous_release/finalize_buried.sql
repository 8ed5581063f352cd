-- finalize_buried at 543ddd7
-- {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "outcome": "text", "code": "integer", "reference": "text", "error_class": "text", "reason": "text", "duration": "integer", "decision": "text", "body_hash": "bytea", "certain": "boolean", "hold_scope": "text", "hold": "float8", "gone": "boolean", "failed": "boolean", "disable_after": "float8", "timed_out": "boolean", "unwell": "boolean", "trips": "boolean", "open_for": "float8", "open_longest": "float8", "notice_id": "uuid", "passing": "boolean", "letter": "text", "letter_id": "uuid"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
locked AS MATERIALIZED (
    SELECT id, attempts, cancel_requested_at IS NOT NULL AS cancel_requested FROM {s}.due
    WHERE id = :id AND delivery_key = :key AND status = 'sending'
    FOR NO KEY UPDATE
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = CASE :letter WHEN 'unknown' THEN 'unknown' ELSE 'dead' END, letter_kind = :letter, uncertain_since = CASE WHEN :outcome = 'unknown' THEN COALESCE(n.uncertain_since, n.claimed_at)
                           WHEN NOT :certain THEN n.uncertain_since END,
        finished_at = (SELECT now FROM t), body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked
    WHERE n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending' AND NOT (locked.cancel_requested AND :letter <> 'unknown') AND n.confirmed_late_at IS NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker, locked.attempts
), attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, :outcome, :code, :reference, :error_class,
           :reason, :duration, :decision
    FROM delivery
), said AS (
    INSERT INTO {s}.destinations AS p
        (id, tenant_id, channel, address, hold_until, hold_reason, disabled_at, disabled_reason)
    SELECT r.destination_id, r.tenant_id, r.channel, r.destination,
           CASE WHEN :hold_scope = 'destination' THEN (SELECT now FROM t) + make_interval(secs => :hold) END, CASE WHEN :hold_scope = 'destination' THEN COALESCE(NULLIF(:reason, ''), :error_class) END,
           CASE WHEN :gone THEN (SELECT now FROM t) END, CASE WHEN :gone THEN COALESCE(NULLIF(:reason, ''), :error_class) END
    FROM delivery JOIN {s}.reminders r ON r.id = delivery.reminder_id
    WHERE :gone OR :hold_scope = 'destination'
    ON CONFLICT (id) DO UPDATE
    SET hold_until = GREATEST(p.hold_until, EXCLUDED.hold_until),
        hold_reason = CASE WHEN p.hold_until >= EXCLUDED.hold_until OR EXCLUDED.hold_until IS NULL THEN p.hold_reason
                           ELSE EXCLUDED.hold_reason END,
        disabled_at = COALESCE(p.disabled_at, EXCLUDED.disabled_at),
        disabled_reason = COALESCE(p.disabled_reason, EXCLUDED.disabled_reason)
    RETURNING p.hold_until, p.id, p.tenant_id, p.channel, p.disabled_at, p.disabled_reason
), said_of_channel AS (
    INSERT INTO {s}.channel_holds AS c (tenant_id, channel, hold_until, hold_reason)
    SELECT r.tenant_id, r.channel, (SELECT now FROM t) + make_interval(secs => :hold), COALESCE(NULLIF(:reason, ''), :error_class)
    FROM delivery JOIN {s}.reminders r ON r.id = delivery.reminder_id
    WHERE :hold_scope = 'provider'
    ON CONFLICT (tenant_id, channel) DO UPDATE
    SET hold_until = GREATEST(c.hold_until, EXCLUDED.hold_until),
        hold_reason = CASE WHEN c.hold_until >= EXCLUDED.hold_until THEN c.hold_reason ELSE EXCLUDED.hold_reason END
    RETURNING c.hold_until, c.tenant_id, c.channel, c.hold_reason
), judged AS MATERIALIZED (
    SELECT r.destination_id, r.tenant_id, r.channel, r.destination, r.id AS reminder_id,
           COALESCE((:unwell AND ((:trips AND k.breaker_opened_at IS NULL) OR k.breaker_opened_at IS NOT NULL AND k.probe_id = r.id)), false) AS opens, COALESCE((NOT :unwell AND k.breaker_opened_at IS NOT NULL AND k.probe_id = r.id), false) AS closes
    FROM delivery JOIN {s}.reminders r ON r.id = delivery.reminder_id
    LEFT JOIN {s}.destinations k ON k.id = r.destination_id
    WHERE :failed AND k.disabled_at IS NULL
      AND (COALESCE(k.failing_since <= (SELECT now FROM t) - make_interval(secs => :disable_after), k.failing_since IS NULL)
           OR :timed_out <> (k.timed_out_at IS NOT NULL) OR (:unwell AND ((:trips AND k.breaker_opened_at IS NULL) OR k.breaker_opened_at IS NOT NULL AND k.probe_id = r.id)) OR (NOT :unwell AND k.breaker_opened_at IS NOT NULL AND k.probe_id = r.id))
), failing AS (
    INSERT INTO {s}.destinations AS p
        (id, tenant_id, channel, address, failing_since, timed_out_at, breaker_opened_at, breaker_times, hold_until, hold_reason)
    SELECT destination_id, tenant_id, channel, destination, (SELECT now FROM t), CASE WHEN :timed_out THEN (SELECT now FROM t) END,
           CASE WHEN opens THEN (SELECT now FROM t) END, CASE WHEN opens THEN 1 ELSE 0 END,
           CASE WHEN opens THEN (SELECT now FROM t) + make_interval(secs => :open_for) END, CASE WHEN opens THEN 'breaker open, the last call: ' || COALESCE(NULLIF(:reason, ''), :error_class) END
    FROM judged
    ON CONFLICT (id) DO UPDATE
    SET failing_since = COALESCE(p.failing_since, EXCLUDED.failing_since),
        timed_out_at = CASE WHEN :timed_out THEN COALESCE(p.timed_out_at, EXCLUDED.timed_out_at) END,
        breaker_opened_at = CASE WHEN ((SELECT closes FROM judged) AND COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false)) THEN NULL ELSE COALESCE(p.breaker_opened_at, EXCLUDED.breaker_opened_at) END,
        breaker_times = CASE WHEN ((SELECT closes FROM judged) AND COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false)) THEN 0 WHEN ((SELECT opens FROM judged)
         AND (p.breaker_opened_at IS NULL OR COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false))) THEN p.breaker_times + 1 ELSE p.breaker_times END,
        probe_id = CASE WHEN NOT ((SELECT closes FROM judged) AND COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false)) AND NOT ((SELECT opens FROM judged)
         AND (p.breaker_opened_at IS NULL OR COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false))) THEN p.probe_id END,
        hold_until = CASE WHEN ((SELECT opens FROM judged)
         AND (p.breaker_opened_at IS NULL OR COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false))) THEN GREATEST(p.hold_until, (SELECT now FROM t) + make_interval(secs => LEAST(:open_longest, :open_for * 2 ^ LEAST(p.breaker_times, 20)))) ELSE p.hold_until END,
        hold_reason = CASE WHEN ((SELECT opens FROM judged)
         AND (p.breaker_opened_at IS NULL OR COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false))) AND COALESCE(p.hold_until < (SELECT now FROM t) + make_interval(secs => LEAST(:open_longest, :open_for * 2 ^ LEAST(p.breaker_times, 20))), true) THEN 'breaker open, the last call: ' || COALESCE(NULLIF(:reason, ''), :error_class) ELSE p.hold_reason END,
        disabled_at = CASE WHEN p.failing_since <= (SELECT now FROM t) - make_interval(secs => :disable_after) THEN COALESCE(p.disabled_at, (SELECT now FROM t))
                           ELSE p.disabled_at END,
        disabled_reason = CASE WHEN p.failing_since <= (SELECT now FROM t) - make_interval(secs => :disable_after) AND p.disabled_at IS NULL
                               THEN 'every call has failed since ' || to_char(p.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"') || '; the last one: '
                                    || COALESCE(NULLIF(:reason, ''), :error_class)
                               ELSE p.disabled_reason END
    RETURNING p.id, p.tenant_id, p.channel, p.disabled_at, p.disabled_reason, p.breaker_opened_at, p.hold_reason
), notice AS (
    INSERT INTO {s}.notices (id, kind, tenant_id, channel, destination_id, reason, noticed_at)
    SELECT :notice_id, news.*, (SELECT now FROM t)
    FROM (
        SELECT 'destination_gone', tenant_id, channel, id, disabled_reason FROM said WHERE disabled_at = (SELECT now FROM t)
        UNION ALL
        SELECT 'destination_failing', tenant_id, channel, id, disabled_reason
        FROM failing WHERE disabled_at = (SELECT now FROM t)
        UNION ALL
        SELECT 'breaker_opened', tenant_id, channel, id, hold_reason
        FROM failing WHERE breaker_opened_at = (SELECT now FROM t) AND disabled_at IS NULL
        UNION ALL
        SELECT 'channel_held', c.tenant_id, c.channel, NULL, c.hold_reason FROM said_of_channel c
        WHERE :passing IS NOT TRUE
          AND NOT EXISTS (SELECT 1 FROM {s}.channel_holds h
                          WHERE h.tenant_id = c.tenant_id AND h.channel = c.channel AND h.hold_until > (SELECT now FROM t))
    ) news LIMIT 1
    ON CONFLICT DO NOTHING
    RETURNING id, kind, channel, destination_id
), gone AS (
    DELETE FROM {s}.due USING delivery WHERE due.id = delivery.reminder_id
), letter AS (
    INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, reminder_id, delivery_key, :letter, :error_class, :reason, attempts + CASE :outcome WHEN 'blocked' THEN 0 ELSE 1 END FROM delivery
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), ended AS (
    UPDATE {s}.reminders r SET status = 'dead', last_outcome = :outcome, finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id
)
SELECT CASE WHEN delivery.claim_number IS NOT NULL THEN 'done' ELSE instead.answer END, (SELECT json_build_object('notice', id, 'kind', kind, 'channel', channel, 'destination', destination_id) FROM notice)
FROM locked LEFT JOIN delivery ON true LEFT JOIN LATERAL (
    SELECT CASE WHEN n.confirmed_late_at IS NOT NULL THEN 'confirmed late' ELSE 'cancel requested' END AS answer
    FROM {s}.notification_deliveries n
    WHERE delivery.claim_number IS NULL AND (locked.cancel_requested OR n.confirmed_late_at IS NOT NULL) AND n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'
) instead ON true
WHERE delivery.claim_number IS NOT NULL OR instead.answer IS NOT NULL

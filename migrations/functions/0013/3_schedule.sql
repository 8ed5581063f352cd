-- Scheduling. `schedule_rows` is the one statement that writes reminders, whoever asks: Python with rows it has checked, or
-- `schedule` below with one that it has checked itself.

-- Nothing is written or locked that two different reminders share, their destination included: a caller waits only for
-- another that schedules the same identity. Rows go in sorted by identity, so that two transactions that schedule the
-- same reminders cannot deadlock. A conflict is skipped, never raised: the caller's transaction must stay usable. What was
-- purged is not made again: one probe of its key for each row, whatever the planner thinks of the table. What is asked for
-- without an expiry has that of its tenant's, or its tenant's kind's, word on lateness.
CREATE OR REPLACE FUNCTION {s}.schedule_rows(wanted json) RETURNS SETOF uuid LANGUAGE sql VOLATILE AS $function$
    WITH input AS MATERIALIZED (
        SELECT * FROM json_to_recordset(wanted) AS i (
            id uuid, tenant_id text, user_id text, kind text, channel text, destination text, destination_id uuid,
            deduplicates boolean, reference text, slot text, data jsonb, due_at timestamptz, zone text, expires_at timestamptz,
            identity_key bytea, request_hash bytea, delivery_key text, series_id uuid, recurrence_id text)
    ), made AS (
        INSERT INTO {s}.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference,
                                   slot, data, due_at, zone, expires_at, identity_key, request_hash, delivery_key, series_id,
                                   recurrence_id)
        SELECT id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference,
               slot, data, due_at, zone, COALESCE(i.expires_at, i.due_at + make_interval(secs => (
                   SELECT l.max_lateness FROM {s}.lateness_policies l WHERE l.tenant_id = i.tenant_id AND l.kind IN (i.kind, '')
                   ORDER BY l.kind DESC LIMIT 1))), identity_key, request_hash, delivery_key, series_id, recurrence_id
        FROM input i
        WHERE (SELECT k.reminder_id FROM {s}.keys_seen k WHERE k.identity_key = i.identity_key) IS NULL
        ORDER BY identity_key
        ON CONFLICT (identity_key) DO NOTHING
        RETURNING id, tenant_id, destination_id, due_at, expires_at, delivery_key
    ), woken AS (
        INSERT INTO {s}.due (id, lane, destination_id, wake_at, give_up_at, status, delivery_key)
        SELECT id, tenant_id, destination_id, due_at, expires_at, 'pending', delivery_key FROM made
    )
    SELECT id FROM made
$function$;

-- How those stand that `schedule_rows` did not make: `asked` is the id in `wanted`. Of one that was purged, what is
-- remembered of its end. `conflict` says what another request had asked for otherwise, by the names of the fields. It must
-- be a statement after `schedule_rows`, for its newer snapshot: the row may have been committed while that one waited for it.
CREATE OR REPLACE FUNCTION {s}.scheduled_before(wanted json)
RETURNS TABLE (asked uuid, reminder_id uuid, delivery_key text, due_at timestamptz, status text, version integer, conflict text)
LANGUAGE sql STABLE AS $function$
    SELECT i.id, COALESCE(r.id, k.reminder_id), COALESCE(r.delivery_key, k.delivery_key), COALESCE(r.due_at, k.due_at),
           COALESCE(d.status, r.status, k.status), COALESCE(r.version, k.version),
           CASE WHEN COALESCE(r.request_hash, k.request_hash) = i.request_hash THEN NULL
                WHEN r.id IS NULL THEN format(
                    'reminder %s stood for this tenant, user, kind, channel, slot and %s, with another destination, time, zone, '
                    'data or expiry; it has ended and was purged: give the new one its own slot', k.reminder_id, about)
                ELSE format(
                    'reminder %s already stands for this tenant, user, kind, channel, slot and %s, with %s; '
                    'reschedule it to move it, or give the new one its own slot', r.id, about,
                    -- Rescheduled since, it may stand as this request wants it; but this is not what first asked for it.
                    COALESCE('another ' || NULLIF(concat_ws(' and ',
                        CASE WHEN r.destination_id <> i.destination_id THEN 'destination' END,
                        CASE WHEN r.due_at <> i.due_at THEN 'due_at' END,
                        CASE WHEN r.zone IS DISTINCT FROM i.zone THEN 'zone' END,
                        CASE WHEN r.expires_at IS DISTINCT FROM i.expires_at THEN 'expires_at' END,
                        CASE WHEN r.data <> i.data THEN 'data' END), ''), 'what another request asked for'))
           END
    FROM json_to_recordset(wanted) AS i (
        id uuid, destination_id uuid, reference text, data jsonb, due_at timestamptz, zone text, expires_at timestamptz,
        identity_key bytea, request_hash bytea)
    CROSS JOIN LATERAL (SELECT COALESCE('reference ' || quote_literal(i.reference), 'instant ' || {s}.instant_text(i.due_at))) AS a (about)
    LEFT JOIN {s}.reminders r ON r.identity_key = i.identity_key
    LEFT JOIN {s}.due d ON d.id = r.id
    LEFT JOIN {s}.keys_seen k ON k.identity_key = i.identity_key
    WHERE r.id IS NOT NULL OR k.reminder_id IS NOT NULL
$function$;

CREATE OR REPLACE FUNCTION {s}.schedule(
    tenant_id text, user_id text, kind text, channel text, destination text, due_at timestamptz, zone text DEFAULT NULL,
    reference text DEFAULT NULL, slot text DEFAULT NULL, data jsonb DEFAULT NULL, expires_at timestamptz DEFAULT NULL
) RETURNS {s}.scheduled LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    new_id uuid := {s}.uuid7();
    in_slot text := COALESCE(slot, '');
    canonical text;
    identity bytea;
    new_key text;
    wanted json;
    before record;
BEGIN
    PERFORM {s}.checked_zone(zone);
    PERFORM {s}.checked_text('tenant_id', tenant_id, 128);
    PERFORM {s}.checked_text('user_id', user_id, 256);
    PERFORM {s}.checked_text('kind', kind, 64);
    PERFORM {s}.checked_text('destination', destination, 2000);
    IF reference IS NOT NULL THEN
        PERFORM {s}.checked_text('reference', reference, 512);
    END IF;
    IF in_slot <> '' THEN
        PERFORM {s}.checked_text('slot', in_slot, 64);
    END IF;
    PERFORM {s}.checked_instant('due_at', due_at);
    IF expires_at IS NOT NULL THEN
        PERFORM {s}.checked_expiry(expires_at, due_at);
    END IF;
    canonical := {s}.canonical_data(data);
    identity := {s}.digest('identity', tenant_id, user_id, reference, CASE WHEN reference IS NULL THEN {s}.instant_text(due_at) END,
                           kind, channel, in_slot, '');
    new_key := {s}.delivery_key(identity, 1);
    wanted := json_build_array(json_build_object(
        'id', new_id, 'tenant_id', tenant_id, 'user_id', user_id, 'kind', kind, 'channel', channel, 'destination', destination,
        'destination_id', {s}.destination_id(tenant_id, channel, destination), 'deduplicates', {s}.checked_channel(channel),
        'reference', reference, 'slot', in_slot, 'data', canonical::json, 'due_at', {s}.instant_text(due_at), 'zone', zone,
        'expires_at', {s}.instant_text(expires_at), 'identity_key', E'\\x' || encode(identity, 'hex'),
        'request_hash', E'\\x' || encode({s}.digest('request', destination, {s}.instant_text(due_at), zone, canonical,
                                                    {s}.instant_text(expires_at)), 'hex'),
        'delivery_key', new_key));
    PERFORM {s}.schedule_rows(wanted);
    IF FOUND THEN
        RETURN ROW(new_id, new_key, due_at, 'pending', 1, true)::{s}.scheduled;
    END IF;
    SELECT * INTO before FROM {s}.scheduled_before(wanted);
    IF before.conflict IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'RM001', MESSAGE = before.conflict;
    END IF;
    RETURN ROW(before.reminder_id, before.delivery_key, before.due_at, before.status, before.version, false)::{s}.scheduled;
END $function$;

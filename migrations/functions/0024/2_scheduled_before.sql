-- How those stand that `schedule_rows` did not make: `asked` is the id in `wanted`. Of one that was purged, what is
-- remembered of its end. `conflict` says what another request had asked for otherwise, by the names of the fields. It must
-- be a statement after `schedule_rows`, for its newer snapshot: the row may have been committed while that one waited for it.
-- Of what was erased nobody knows any more what was asked for: whatever is asked for then is the same.
CREATE OR REPLACE FUNCTION {s}.scheduled_before(wanted json)
RETURNS TABLE (asked uuid, reminder_id uuid, delivery_key text, due_at timestamptz, status text, version integer, conflict text)
LANGUAGE sql STABLE AS $function$
    SELECT i.id, COALESCE(r.id, k.reminder_id), COALESCE(r.delivery_key, k.delivery_key), COALESCE(r.due_at, k.due_at),
           COALESCE(d.status, r.status, k.status), COALESCE(r.version, k.version),
           CASE WHEN COALESCE(r.request_hash, k.request_hash) IN (i.request_hash, {s}.erased_hash()) THEN NULL
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

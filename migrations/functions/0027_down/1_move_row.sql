-- `said` is why it was not moved, of `kind` 'missing', 'refused' or 'invalid' (then `field` names what is). With `put_off` it
-- is a snooze: `to_due`, or what is due or overdue now and `by` later; it never revives, and its expiry stays.
CREATE OR REPLACE FUNCTION {s}.move_row(
    wanted uuid, to_due timestamptz, in_zone text, to_expiry timestamptz, put_off boolean DEFAULT false, by interval DEFAULT NULL
) RETURNS {s}.moved LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    found record;
    field text := CASE WHEN by IS NULL THEN 'until' ELSE 'by' END;
    new_key text;
BEGIN
    PERFORM {s}.lock_rows(ARRAY[wanted]);
    SELECT r.status, d.status AS live, r.due_at, r.zone, r.expires_at, r.version, r.delivery_key, r.identity_key,
           r.erased_at, n.uncertain_since IS NOT NULL AS uncertain, r.status = 'delivered' OR n.confirmed_late_at IS NOT NULL AS sent
    INTO found
    FROM {s}.reminders r
    LEFT JOIN {s}.due d ON d.id = r.id
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
    WHERE r.id = wanted;
    IF found.status IS NULL THEN
        RETURN {s}.not_moved('missing', NULL, {s}.missing(wanted));
    ELSIF found.erased_at IS NOT NULL THEN
        RETURN {s}.not_moved('refused', NULL, format('reminder %s was erased: nobody knows any more where to send it', wanted));
    ELSIF found.sent THEN
        RETURN {s}.not_moved('refused', NULL, format('reminder %s is already delivered; schedule another one, with its own slot', wanted));
    ELSIF found.live = 'sending' THEN
        RETURN {s}.not_moved('refused', NULL, format('reminder %s is being sent right now; try again when the claim has ended', wanted));
    ELSIF found.uncertain THEN
        RETURN {s}.not_moved('refused', NULL, format(
            'reminder %s may already have been sent (an earlier attempt''s outcome is unknown); it is for review, not for rescheduling', wanted));
    END IF;
    IF put_off THEN
        IF found.live IS NULL THEN
            RETURN {s}.not_moved('refused', NULL, format(
                'reminder %s is %s: only one that has not ended can be snoozed; reschedule it instead', wanted, found.status));
        ELSIF by > interval '8000 years' THEN
            RETURN {s}.not_moved('invalid', field, 'leads beyond the year 9998');
        ELSIF by < interval '-8000 years' THEN
            RETURN {s}.not_moved('invalid', field, 'must lie in the future');
        END IF;
        to_due := COALESCE(to_due, (GREATEST(found.due_at, clock_timestamp()) AT TIME ZONE 'UTC' + by) AT TIME ZONE 'UTC');
        to_expiry := found.expires_at;
        IF to_due <= clock_timestamp() THEN
            RETURN {s}.not_moved('invalid', field, 'must lie in the future');
        ELSIF to_due <= found.due_at THEN
            RETURN {s}.not_moved('invalid', field, 'must be later than its due_at, ' || {s}.instant_text(found.due_at)
                                                   || '; reschedule moves a reminder forward');
        ELSIF to_due >= '9999-01-01Z' THEN
            RETURN {s}.not_moved('invalid', field, 'leads beyond the year 9998');
        ELSIF to_due >= to_expiry THEN
            RETURN {s}.not_moved('invalid', field, 'reaches its expires_at, ' || {s}.instant_text(to_expiry)
                                                   || ', after which it is not sent; reschedule moves both');
        END IF;
    ELSE
        IF found.live IS NOT NULL AND found.due_at = to_due AND COALESCE(in_zone = found.zone, in_zone IS NULL)
           AND COALESCE(to_expiry = found.expires_at, to_expiry IS NULL) THEN
            RETURN ROW('moved', NULL, NULL, found.delivery_key, found.due_at, found.live, found.version)::{s}.moved;
        END IF;
        IF to_expiry IS NULL THEN
            to_expiry := (found.expires_at AT TIME ZONE 'UTC' + (to_due - found.due_at)) AT TIME ZONE 'UTC';
        END IF;
        IF to_expiry >= '9999-01-01Z' THEN
            RETURN {s}.not_moved('invalid', 'expires_at', 'would move beyond the last year; give it as well');
        ELSIF to_expiry <= to_due THEN
            RETURN {s}.not_moved('invalid', 'expires_at', 'must be later than due_at');
        END IF;
    END IF;
    new_key := {s}.delivery_key(found.identity_key, found.version + 1);
    WITH superseded AS (
        UPDATE {s}.notification_deliveries
        SET status = 'superseded', finished_at = clock_timestamp(), letter_kind = NULL
        WHERE reminder_id = wanted AND status IN ('retrying', 'dead', 'expired', 'cancelled', 'suppressed')
    ), letter AS (
        UPDATE {s}.dead_letters
        SET state = 'resolved', closed_at = clock_timestamp(), actor = 'reschedule', action_reason = 'the reminder was rescheduled'
        WHERE reminder_id = wanted AND state = 'open'
    ), changed AS (
        UPDATE {s}.reminders r
        SET due_at = to_due, zone = COALESCE(in_zone, r.zone), expires_at = to_expiry, version = r.version + 1,
            delivery_key = new_key, status = 'live', finished_at = NULL, last_outcome = NULL, cancel_requested_at = NULL,
            suppressed_by = NULL, suppressed_reason = NULL,
            moved_at = CASE WHEN r.series_id IS NOT NULL THEN clock_timestamp() END, withdrawn_at = NULL
        WHERE r.id = wanted
        RETURNING r.id, r.tenant_id, r.destination_id, r.series_id, r.recurrence_id
    ), made_after_all AS (
        -- A turn is a reminder or on record as skipped, never both.
        DELETE FROM {s}.series_skips k USING changed c
        WHERE k.series_id = c.series_id AND k.recurrence_id = c.recurrence_id AND k.count = 1
    )
    INSERT INTO {s}.due AS d (id, lane, destination_id, wake_at, give_up_at, status, delivery_key)
    SELECT id, tenant_id, destination_id, to_due, to_expiry, 'pending', new_key FROM changed
    ON CONFLICT (id) DO UPDATE
    SET lane = EXCLUDED.lane, destination_id = EXCLUDED.destination_id, wake_at = EXCLUDED.wake_at, give_up_at = EXCLUDED.give_up_at,
        status = 'pending', delivery_key = EXCLUDED.delivery_key, route = 'deliver', lease_token = NULL, published_at = NULL,
        attempts = 0, alone_deaths = 0, hold_id = NULL, held_at = NULL, wait_left = NULL;
    RETURN ROW('moved', NULL, NULL, new_key, to_due, 'pending', found.version + 1)::{s}.moved;
END $function$;

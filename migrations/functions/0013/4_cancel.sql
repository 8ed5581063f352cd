-- Cancelling, one or many: every rule stands once, in `cancel_answers`, and every write once, in `cancel_rows`.

-- Locks each reminder's row of `due`, as every other move does, and then its own row; each kind in the order of ids, so that
-- two callers cannot deadlock. What was revived while we waited has a row of `due` that the first look did not see: nobody
-- can revive it again while we hold the other row.
CREATE OR REPLACE FUNCTION {s}.lock_rows(wanted uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    held uuid[];
BEGIN
    held := ARRAY(SELECT d.id FROM {s}.due d WHERE d.id = ANY (wanted) ORDER BY d.id FOR NO KEY UPDATE);
    PERFORM 1 FROM {s}.reminders r WHERE r.id = ANY (wanted) ORDER BY r.id FOR NO KEY UPDATE;
    PERFORM 1 FROM {s}.due d WHERE d.id = ANY (wanted) AND d.id <> ALL (held) ORDER BY d.id FOR NO KEY UPDATE;
END $function$;

-- What `cancel` answers for each, and the status that its own row has. No answer: nothing is left to cancel.
CREATE OR REPLACE FUNCTION {s}.cancel_answers(wanted uuid[]) RETURNS TABLE (reminder_id uuid, answer text, standing text)
LANGUAGE sql STABLE AS $function$
    SELECT r.id,
           CASE WHEN r.status = 'cancelled' THEN 'cancelled'
                WHEN r.status = 'delivered' OR n.confirmed_late_at IS NOT NULL THEN 'too_late'
                WHEN d.status = 'sending' THEN 'requested'
                WHEN n.uncertain_since IS NOT NULL THEN 'maybe_sent'
                WHEN r.status IN ('live', 'dead', 'expired') THEN 'cancelled' END,
           r.status
    FROM {s}.reminders r
    LEFT JOIN {s}.due d ON d.id = r.id
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
    WHERE r.id = ANY (wanted)
$function$;

-- With `dry_run` it says what it would do. One whose attempt is unknown goes to review, if it is not there; no redrive sends what somebody has asked to cancel.
CREATE OR REPLACE FUNCTION {s}.cancel_rows(wanted uuid[], dry_run boolean DEFAULT false)
RETURNS TABLE (reminder_id uuid, answer text, standing text) LANGUAGE plpgsql VOLATILE AS $function$
#variable_conflict use_column
BEGIN
    IF dry_run THEN
        RETURN QUERY SELECT * FROM {s}.cancel_answers(wanted);
        RETURN;
    END IF;
    PERFORM {s}.lock_rows(wanted);
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT a.reminder_id AS id, a.answer, a.standing, a.answer = 'cancelled' AND a.standing <> 'cancelled' AS ends,
               a.answer = 'maybe_sent' AND a.standing = 'live' AS reviewed
        FROM {s}.cancel_answers(wanted) a
    ), asked AS (
        UPDATE {s}.due d SET cancel_requested_at = COALESCE(d.cancel_requested_at, clock_timestamp())
        FROM found f WHERE d.id = f.id AND f.answer = 'requested'
    ), gone AS (
        DELETE FROM {s}.due d USING found f WHERE d.id = f.id AND (f.ends OR f.reviewed)
        RETURNING d.id, d.delivery_key, d.attempts, f.reviewed
    ), delivery AS (
        UPDATE {s}.notification_deliveries n
        SET status = 'cancelled', finished_at = clock_timestamp(), letter_kind = NULL
        FROM found f WHERE n.reminder_id = f.id AND f.ends AND n.status IN ('retrying', 'dead')
    ), unknown AS (
        UPDATE {s}.notification_deliveries n
        SET status = 'unknown', finished_at = clock_timestamp(), letter_kind = 'unknown'
        FROM gone g WHERE n.delivery_key = g.delivery_key AND g.reviewed
    ), closed AS (
        UPDATE {s}.dead_letters l
        SET state = 'discarded', closed_at = clock_timestamp(), actor = 'cancel', action_reason = 'the reminder was cancelled'
        FROM found f WHERE l.reminder_id = f.id AND l.state = 'open' AND f.ends
    ), opened AS (
        INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
        SELECT {s}.uuid7(), g.id, g.delivery_key, 'unknown', 'cancelled_while_uncertain',
               'cancelled while the outcome of an earlier attempt is unknown', g.attempts
        FROM gone g WHERE g.reviewed
        ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
    ), ended AS (
        UPDATE {s}.reminders r
        SET status = CASE WHEN f.ends THEN 'cancelled' ELSE 'dead' END, finished_at = clock_timestamp(),
            last_outcome = CASE WHEN f.reviewed THEN 'unknown' ELSE r.last_outcome END,
            cancel_requested_at = CASE WHEN f.reviewed THEN clock_timestamp() ELSE r.cancel_requested_at END
        FROM found f WHERE r.id = f.id AND (f.ends OR f.reviewed)
    ), for_good AS (
        -- What its series has withdrawn may come back; what a person has cancelled does not.
        UPDATE {s}.reminders r SET withdrawn_at = NULL
        FROM found f WHERE r.id = f.id AND f.standing = 'cancelled' AND r.withdrawn_at IS NOT NULL
    ), noted AS (
        UPDATE {s}.reminders r SET cancel_requested_at = COALESCE(r.cancel_requested_at, clock_timestamp())
        FROM found f
        WHERE r.id = f.id AND (f.answer = 'requested' OR f.answer = 'maybe_sent' AND f.standing = 'dead')
    )
    SELECT f.id, f.answer, f.standing FROM found f;
END $function$;

CREATE OR REPLACE FUNCTION {s}.cancel(id uuid) RETURNS text LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    outcome record;
BEGIN
    SELECT * INTO outcome FROM {s}.cancel_rows(ARRAY[id]);
    IF outcome.reminder_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'RM002', MESSAGE = {s}.missing(id);
    ELSIF outcome.answer IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'RM003', MESSAGE = format('reminder %s is %s: nothing is left to cancel', id, outcome.standing);
    END IF;
    RETURN outcome.answer;
END $function$;

-- What a cancellation changes comes first, and what was delivered is told beside it: asked again, it comes to an end.
CREATE OR REPLACE FUNCTION {s}.cancel_where(
    tenant_id text, reference text DEFAULT NULL, user_id text DEFAULT NULL, kind text DEFAULT NULL, slot text DEFAULT NULL,
    channel text DEFAULT NULL, at_most integer DEFAULT 1000, dry_run boolean DEFAULT false
) RETURNS {s}.cancelled_many LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $function$
DECLARE
    matching uuid[];
    changing boolean[];
    outcome {s}.cancelled_many;
BEGIN
    PERFORM {s}.checked_text('tenant_id', tenant_id, 128);
    IF reference IS NULL AND user_id IS NULL THEN
        PERFORM {s}.refuse('reference', 'or user_id must be given: a tenant''s reminders are not cancelled as a whole');
    ELSIF at_most IS NULL OR at_most NOT BETWEEN 1 AND 10000 THEN
        PERFORM {s}.refuse('at_most', 'must be from 1 to 10,000');
    ELSIF dry_run IS NULL THEN
        PERFORM {s}.refuse('dry_run', 'must be true or false');
    END IF;
    SELECT array_agg(m.id), array_agg(m.changes) INTO matching, changing FROM (
        SELECT r.id, r.status <> 'delivered' AS changes
        FROM {s}.reminders r
        WHERE r.tenant_id = cancel_where.tenant_id
          AND (cancel_where.reference IS NULL OR r.reference = cancel_where.reference)
          AND (cancel_where.user_id IS NULL OR r.user_id = cancel_where.user_id)
          AND (cancel_where.kind IS NULL OR r.kind = cancel_where.kind)
          AND (cancel_where.slot IS NULL OR r.slot = cancel_where.slot)
          AND (cancel_where.channel IS NULL OR r.channel = cancel_where.channel)
          AND (r.status = 'delivered' OR r.status IN ('live', 'dead', 'expired') AND r.cancel_requested_at IS NULL
               OR r.status = 'cancelled' AND r.withdrawn_at IS NOT NULL)
        ORDER BY changes DESC, r.id DESC LIMIT at_most + 1) m;
    SELECT array_agg(a.reminder_id ORDER BY a.reminder_id) FILTER (WHERE a.answer = 'cancelled'),
           array_agg(a.reminder_id ORDER BY a.reminder_id) FILTER (WHERE a.answer = 'requested'),
           array_agg(a.reminder_id ORDER BY a.reminder_id) FILTER (WHERE a.answer = 'maybe_sent'),
           array_agg(a.reminder_id ORDER BY a.reminder_id) FILTER (WHERE a.answer = 'too_late')
    INTO outcome FROM {s}.cancel_rows(matching[:at_most], dry_run) a;
    RETURN ROW(COALESCE(outcome.cancelled, '{}'), COALESCE(outcome.requested, '{}'), COALESCE(outcome.maybe_sent, '{}'),
               COALESCE(outcome.too_late, '{}'), COALESCE(changing[at_most + 1], false))::{s}.cancelled_many;
END $function$;

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

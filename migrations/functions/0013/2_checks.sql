-- What reminders/domain/request.py checks, in the same words. Whether an address suits its channel is the provider's to say,
-- when the reminder is sent.

CREATE OR REPLACE FUNCTION {s}.checked_text(field text, value text, longest integer) RETURNS text LANGUAGE plpgsql STABLE AS $function$
DECLARE
    bad text;
BEGIN
    IF value IS NULL THEN
        PERFORM {s}.refuse(field, 'must be text, not null');
    ELSIF value = '' THEN
        PERFORM {s}.refuse(field, 'is empty');
    ELSIF length(value) > longest THEN
        PERFORM {s}.refuse(field, format('has %s characters; at most %s are allowed',
                                         to_char(length(value), 'FM999,999,999,999'), to_char(longest, 'FM999,999')));
    END IF;
    bad := substring(value, E'[\\u0001-\\u001f\\u007f-\\u009f]');
    IF bad IS NOT NULL THEN
        PERFORM {s}.refuse(field, format('contains a control character (U+%s) at position %s',
                                         lpad(upper(to_hex(ascii(bad))), 4, '0'), strpos(value, bad) - 1));
    END IF;
    RETURN value;
END $function$;

CREATE OR REPLACE FUNCTION {s}.checked_instant(field text, value timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $function$
BEGIN
    IF value IS NULL THEN
        PERFORM {s}.refuse(field, 'must be a timestamptz, not null');
    ELSIF NOT isfinite(value) THEN
        PERFORM {s}.refuse(field, 'is ' || value || '; years 1970 to 9998 (UTC) are allowed');
    ELSIF extract(year FROM value AT TIME ZONE 'UTC') NOT BETWEEN 1970 AND 9998 THEN
        PERFORM {s}.refuse(field, format('is in the year %s; years 1970 to 9998 (UTC) are allowed', extract(year FROM value AT TIME ZONE 'UTC')));
    END IF;
    RETURN value;
END $function$;

CREATE OR REPLACE FUNCTION {s}.checked_expiry(expires_at timestamptz, due_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $function$
BEGIN
    IF {s}.checked_instant('expires_at', expires_at) <= due_at THEN
        PERFORM {s}.refuse('expires_at', 'must be later than due_at');
    END IF;
    RETURN expires_at;
END $function$;

CREATE OR REPLACE FUNCTION {s}.checked_zone(zone text) RETURNS text LANGUAGE plpgsql STABLE AS $function$
DECLARE
    meant text;
BEGIN
    IF zone IS NULL OR EXISTS (SELECT FROM {s}.known_zones z WHERE z.name = zone) THEN
        RETURN zone;
    END IF;
    SELECT z.name INTO meant FROM {s}.known_zones z WHERE lower(z.name) = lower(replace(btrim(left(zone, 64)), ' ', '_'));
    PERFORM {s}.refuse('zone', quote_literal(left(zone, 64)) || ' is no IANA zone name'
                               || COALESCE('; did you mean ' || meant || '?', ', such as Europe/Berlin'));
END $function$;

-- Whether the destinations of this channel are expected to deduplicate.
CREATE OR REPLACE FUNCTION {s}.checked_channel(channel text) RETURNS boolean LANGUAGE plpgsql STABLE AS $function$
DECLARE
    found boolean;
BEGIN
    SELECT c.deduplicates INTO found FROM {s}.known_channels c WHERE c.name = channel;
    IF found IS NULL THEN
        PERFORM {s}.refuse('channel', format('%s is not installed; known channels: %s', COALESCE(quote_literal(left(channel, 60)), 'null'),
                                             (SELECT string_agg(c.name, ', ' ORDER BY c.name COLLATE "C") FROM {s}.known_channels c)));
    END IF;
    RETURN found;
END $function$;

CREATE OR REPLACE FUNCTION {s}.missing(wanted uuid) RETURNS text LANGUAGE sql STABLE AS $function$
    SELECT COALESCE(
        (SELECT format('reminder %s was purged on %s; it ended as %s on %s', wanted, to_char(k.purged_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
                       k.status, to_char(k.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
         FROM {s}.keys_seen k WHERE k.reminder_id = wanted AND k.purged_at IS NOT NULL LIMIT 1),
        'there is no reminder ' || COALESCE(wanted::text, 'null'))
$function$;

-- Keys and canonical JSON, byte for byte as reminders/domain/identity.py and request.py make them; tests hold them together.
-- Our own objects are named with their schema and built-in ones are not: pg_catalog comes first in every search path that
-- does not say otherwise, and all of this runs with the caller's own rights.

CREATE OR REPLACE FUNCTION {s}.digest(VARIADIC parts text[]) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $function$
    SELECT sha256(string_agg(
        CASE WHEN part IS NULL THEN decode('ffffffff', 'hex') ELSE int4send(octet_length(raw)) || raw END, ''::bytea ORDER BY n))
    FROM unnest(parts) WITH ORDINALITY AS p (part, n) CROSS JOIN LATERAL (SELECT convert_to(part, 'UTF8')) AS r (raw)
$function$;

CREATE OR REPLACE FUNCTION {s}.instant_text(instant timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $function$
    SELECT to_char(instant AT TIME ZONE 'UTC', CASE WHEN date_trunc('second', instant) = instant
        THEN 'YYYY-MM-DD"T"HH24:MI:SS' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US' END) || '+00:00'
$function$;

CREATE OR REPLACE FUNCTION {s}.delivery_key(identity bytea, version integer) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $function$
    SELECT 'dk_' || rtrim(translate(encode(
        sha256(convert_to('delivery', 'UTF8') || identity || int8send(version)), 'base64'), '+/', '-_'), '=')
$function$;

CREATE OR REPLACE FUNCTION {s}.destination_id(tenant_id text, channel text, address text) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $function$
    SELECT encode(set_byte(set_byte(raw, 6, get_byte(raw, 6) & 15 | 128), 8, get_byte(raw, 8) & 63 | 128), 'hex')::uuid
    FROM substr({s}.digest('destination', tenant_id, channel, address), 1, 16) AS d (raw)
$function$;

-- The bits that make version 7 of a random id's version 4.
CREATE OR REPLACE FUNCTION {s}.uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $function$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substr(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$function$;

CREATE OR REPLACE FUNCTION {s}.refuse(field text, reason text) RETURNS void LANGUAGE plpgsql STABLE AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = field || ': ' || reason, COLUMN = field;
END $function$;

-- Whole numbers of 64 bits, and what a float of 64 bits can tell apart: whatever reads it as one of the two reads the same.
CREATE OR REPLACE FUNCTION {s}.canonical_number(value numeric, path text) RETURNS text LANGUAGE plpgsql STABLE AS $function$
BEGIN
    IF NOT (value = trunc(value) AND value BETWEEN -9223372036854775808 AND 9223372036854775807) THEN
        IF NOT (abs(value) BETWEEN 5e-324 AND 1.7976931348623157e308) OR length(btrim(replace(abs(value)::text, '.', ''), '0')) > 17 THEN
            PERFORM {s}.refuse('data', path || ' is a number that neither a 64-bit integer nor a 64-bit float holds; give it as text');
        END IF;
    END IF;
    RETURN trim_scale(value)::text;
END $function$;

CREATE OR REPLACE FUNCTION {s}.canonical_json(value jsonb, path text, depth integer) RETURNS text LANGUAGE plpgsql STABLE AS $function$
BEGIN
    IF depth > 16 THEN
        PERFORM {s}.refuse('data', 'is nested deeper than 16 levels');
    END IF;
    CASE jsonb_typeof(value)
        WHEN 'number' THEN
            RETURN {s}.canonical_number(value::numeric, path);
        WHEN 'array' THEN
            RETURN (SELECT '[' || COALESCE(string_agg({s}.canonical_json(item, path || '[' || n - 1 || ']', depth + 1), ',' ORDER BY n), '') || ']'
                    FROM jsonb_array_elements(value) WITH ORDINALITY AS i (item, n));
        WHEN 'object' THEN
            RETURN (SELECT '{' || COALESCE(string_agg(to_json(name)::text || ':' || {s}.canonical_json(item, path || '.' || left(name, 40), depth + 1),
                                                      ',' ORDER BY name COLLATE "C"), '') || '}'
                    FROM jsonb_each(value) AS i (name, item));
        ELSE
            RETURN value::text;
    END CASE;
END $function$;

CREATE OR REPLACE FUNCTION {s}.canonical_data(data jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $function$
DECLARE
    size integer := octet_length(convert_to(data::text, 'UTF8'));
    canonical text;
BEGIN
    IF data IS NULL THEN
        RETURN '{}';
    END IF;
    IF jsonb_typeof(data) <> 'object' THEN
        PERFORM {s}.refuse('data', 'must be a JSON object, not ' || jsonb_typeof(data));
    END IF;
    -- What is that large is not walked through. Of this text the canonical form is more than a quarter.
    IF size <= 262144 THEN
        canonical := {s}.canonical_json(data, 'data', 1);
        size := octet_length(convert_to(canonical, 'UTF8'));
    END IF;
    IF size > 8192 THEN
        PERFORM {s}.refuse('data', format('has %s bytes as JSON; at most 8,192 are allowed', CASE
            WHEN size > 65536 THEN 'more than 65,536' ELSE to_char(size, 'FM999,999,999') END));
    END IF;
    RETURN canonical;
END $function$;

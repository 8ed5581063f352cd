-- A time-ordered random id (RFC 9562 section 5.7) with the fraction of its millisecond beside it (section 6.2, method 3): of two
-- ids made a microsecond apart the later is the greater. Microseconds times 4,096 over 1,000 are milliseconds and 12 bits of fraction.
CREATE OR REPLACE FUNCTION {s}.uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $function$
    SELECT (overlay(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 512 / 125), 15, '0') PLACING '7' FROM 13 FOR 0)
        || substr(gen_random_uuid()::text, 20))::uuid
$function$;

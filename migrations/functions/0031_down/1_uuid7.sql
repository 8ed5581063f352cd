-- The bits that make version 7 of a random id's version 4.
CREATE OR REPLACE FUNCTION {s}.uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $function$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substr(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$function$;

-- What stands in place of a user's id in rows that stay after an erasure: by a key of this ledger's own, so that the same
-- user's rows stay together, and what they have refused is found again. Null as long as nobody was erased.
CREATE OR REPLACE FUNCTION {s}.erased_user(tenant_id text, user_id text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $function$
    SELECT 'erased-' || left(encode(sha256(k.key || {s}.digest('erased user', tenant_id, user_id)), 'hex'), 32)
    FROM {s}.erasure_key k WHERE k.sole
$function$;

-- Stands in place of a hash of what was erased.
CREATE OR REPLACE FUNCTION {s}.erased_hash() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $function$
    SELECT decode(repeat('00', 32), 'hex')
$function$;

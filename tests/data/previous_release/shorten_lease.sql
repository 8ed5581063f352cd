-- shorten_lease at 543ddd7
-- {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "seconds": "float8"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), mine AS MATERIALIZED (
    SELECT id FROM {s}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {s}.due d SET wake_at = LEAST((SELECT now FROM t) + make_interval(secs => :seconds), d.give_up_at)
FROM mine WHERE d.id = mine.id
RETURNING 1

-- take_back at 543ddd7
-- {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "seconds": "float8"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), mine AS MATERIALIZED (
    SELECT id FROM {s}.due
    WHERE id = ANY(:ids) AND status = 'published' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {s}.due d
SET status = 'leased', wake_at = LEAST(d.wake_at, (SELECT now FROM t) + make_interval(secs => :seconds))
FROM mine WHERE d.id = mine.id
RETURNING d.id::text

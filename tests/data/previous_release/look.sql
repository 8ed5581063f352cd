-- look at 543ddd7
-- {"now": "timestamptz", "limit": "integer", "young": "float8", "dispatcher": "text"}
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), flight AS (
    SELECT count(*) FILTER (WHERE status = 'published' AND wake_at > (SELECT now FROM t)) AS published,
           count(*) FILTER (WHERE status = 'sending' AND wake_at > (SELECT now FROM t)) AS sending,
           count(*) FILTER (WHERE status = 'sending' AND wake_at <= (SELECT now FROM t)) AS lapsed,
           count(*) FILTER (WHERE status = 'sending' AND wake_at > (SELECT now FROM t)
      AND wake_at <= (SELECT now FROM t) + make_interval(secs => :young)) AS slow,
           count(*) FILTER (WHERE route = 'retry' AND wake_at > (SELECT now FROM t)) AS retrying
    FROM {s}.due WHERE status IN ('published', 'sending')
)
SELECT published, sending, lapsed, slow, retrying,
       (SELECT count(*) FROM (SELECT 1 FROM {s}.due WHERE wake_at <= (SELECT now FROM t) AND status <> 'sending' LIMIT :limit) d),
       EXISTS (SELECT 1 FROM {s}.due WHERE give_up_at <= (SELECT now FROM t) AND status <> 'sending'),
       (SELECT extract(epoch FROM d.wake_at - (SELECT now FROM t))::float8
        FROM {s}.due d WHERE d.wake_at > (SELECT now FROM t) ORDER BY d.wake_at LIMIT 1),
       EXISTS (SELECT 1 FROM {s}.rates WHERE removed_at IS NULL) OR EXISTS (SELECT 1 FROM {s}.due d WHERE d.status = 'pending' AND d.turn_at = d.wake_at)
       OR EXISTS (SELECT 1 FROM {s}.destinations WHERE timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL),
       (EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE dispatcher < :dispatcher)
    OR EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE dispatcher > :dispatcher)
    OR COALESCE((SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole) <> :dispatcher, false))
FROM flight

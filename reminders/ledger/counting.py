"""Counting attempts: running totals for metrics, and facts of lateness by day and tenant.

A sweep goes through the attempts in the order in which they were recorded, each once: what it has counted, and up to where,
is committed together. So the numbers are the ledger's own: no worker has to live to report them, and none is counted twice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

BOUNDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, float("inf"))
"""Seconds of lateness up to which each bucket reaches. They are in the ledger: another list is another metric."""
IN_TIME = 60.0
"""Seconds within which a reminder must be called for once it may be: the objective. One of `BOUNDS`."""
LAG = 5.0
"""Seconds for which an attempt is left alone: it may be recorded and not yet visible."""
LONGEST_LAG = 300.0
"""Seconds for which a transaction that is open keeps back what was recorded since it began; none of ours is open for so long."""
BATCH = 5000
"""Attempts counted in one transaction, about; some 100 ms."""
KEPT_DAYS = 400
"""Days for which facts are kept: a year, and what is compared with it."""

# Asked ahead of the count, in a transaction of its own: what it does not see open has ended, and the count then sees it. Autovacuum
# records no attempts, and may take minutes.
SETTLED = Statement(
    "count_settled",
    """
SELECT LEAST(clock_timestamp() - make_interval(secs => :lag),
             GREATEST(COALESCE(min(xact_start) FILTER (WHERE backend_xid IS NOT NULL), 'infinity'), clock_timestamp() - make_interval(secs => :longest)))
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type IS DISTINCT FROM 'autovacuum worker'
""",
    {"lag": "float8", "longest": "float8"},
)

# A ledger that was begun without it, or emptied.
BEGIN = Statement(
    "count_begin",
    """
INSERT INTO {s}.counted_up_to (name, recorded_at, counted_at) VALUES ('attempts', '1970-01-01Z', clock_timestamp())
ON CONFLICT DO NOTHING RETURNING 1
""",
    {},
)

_BOUNDS = f"ARRAY[{', '.join(f'{bound:g}' for bound in BOUNDS[:-1])}, 'Infinity']::float8[]"
_AFTER, _UPTO = "(SELECT recorded_at FROM mark)", "(SELECT upto FROM cut)"


def _seconds(since: str, until: str) -> str:
    return f"GREATEST(extract(epoch FROM {until} - {since})::float8, 0)"


def _bucket(seconds: str) -> str:
    return f"({_BOUNDS})[width_bucket({seconds}, {_BOUNDS}) + 1]"


# The first call of a key says how late the reminder was called for, a success how late it was delivered. Of what was moved or
# purged meanwhile only the attempt itself is counted. A reminder cannot be late from before it was scheduled.
COUNT_IF_NOT_COUNTED = Statement(
    "count_attempts",
    f"""
WITH mark AS MATERIALIZED (
    SELECT recorded_at FROM {{s}}.counted_up_to WHERE name = 'attempts' AND recorded_at < :settled FOR NO KEY UPDATE SKIP LOCKED
), cut AS MATERIALIZED (
    SELECT COALESCE((SELECT a.recorded_at FROM {{s}}.delivery_attempts a
                     WHERE a.recorded_at > {_AFTER} AND a.recorded_at <= :settled
                     ORDER BY a.recorded_at OFFSET :batch LIMIT 1), :settled) AS upto
    FROM mark
), fresh AS MATERIALIZED (
    SELECT a.outcome, a.claimed_at, a.recorded_at, a.decision LIKE 'look-up: %' AS looks_up, COALESCE(r.channel, '') AS channel,
           r.tenant_id, a.claim_number = 1 OR NOT EXISTS (
               SELECT 1 FROM {{s}}.delivery_attempts e
               WHERE e.delivery_key = a.delivery_key AND e.claim_number < a.claim_number) AS first,
           CASE WHEN r.delivery_key = a.delivery_key THEN GREATEST(r.due_at, r.created_at) END AS due_at,
           CASE WHEN r.delivery_key = a.delivery_key AND a.ready_at IS NOT NULL
                THEN GREATEST(a.ready_at, r.due_at, r.created_at) END AS ready_at
    FROM {{s}}.delivery_attempts a LEFT JOIN {{s}}.reminders r ON r.id = a.reminder_id
    WHERE a.recorded_at > {_AFTER} AND a.recorded_at <= {_UPTO}
), late AS MATERIALIZED (
    SELECT 'called' AS name, channel, tenant_id, due_at, {_seconds("ready_at", "claimed_at")} AS seconds
    FROM fresh WHERE first AND ready_at IS NOT NULL
    UNION ALL
    SELECT 'delivered', channel, tenant_id, due_at, {_seconds("due_at", "recorded_at")}
    FROM fresh WHERE outcome = 'delivered' AND due_at IS NOT NULL
), counted AS (
    INSERT INTO {{s}}.totals AS o (name, channel, label, value)
    SELECT CASE WHEN looks_up THEN 'look_ups' ELSE 'attempts' END, channel, outcome, count(*) FROM fresh GROUP BY 1, 2, 3
    UNION ALL
    SELECT 'retries', channel, '', count(*) FROM fresh WHERE NOT first AND NOT looks_up GROUP BY channel
    UNION ALL
    SELECT name, channel, {_bucket("seconds")}::text, count(*) FROM late GROUP BY 1, 2, 3
    UNION ALL
    SELECT name || '_seconds', channel, '', sum(seconds) FROM late GROUP BY 1, 2
    ON CONFLICT (name, channel, label) DO UPDATE SET value = o.value + EXCLUDED.value
), facts AS (
    INSERT INTO {{s}}.slo_days AS f (day, tenant_id, late_within, called, delivered)
    SELECT (due_at AT TIME ZONE 'UTC')::date, tenant_id, {_bucket("seconds")},
           count(*) FILTER (WHERE name = 'called'), count(*) FILTER (WHERE name = 'delivered')
    FROM late GROUP BY 1, 2, 3
    ON CONFLICT (day, tenant_id, late_within) DO UPDATE SET called = f.called + EXCLUDED.called, delivered = f.delivered + EXCLUDED.delivered
)
UPDATE {{s}}.counted_up_to c SET recorded_at = cut.upto, counted_at = clock_timestamp() FROM cut WHERE c.name = 'attempts'
RETURNING (SELECT count(*) FROM fresh), cut.upto < :settled
""",
    {"settled": "timestamptz", "batch": "integer"},
)

FORGET = Statement(
    "count_forget",
    """
DELETE FROM {s}.slo_days WHERE (day, tenant_id, late_within) IN (
    SELECT day, tenant_id, late_within FROM {s}.slo_days
    WHERE day < (clock_timestamp() AT TIME ZONE 'UTC')::date - :days ORDER BY day LIMIT 10000)
RETURNING 1
""",
    {"days": "integer"},
)


@dataclass(frozen=True, slots=True)
class Counted:
    """How many attempts a sweep has counted; `complete` if no more were to be counted yet."""

    attempts: int
    complete: bool


def count_attempts(database: Database, *, seconds: float = 10.0, batch: int = BATCH, lag: float = LAG) -> Counted:
    """Count what was recorded since the last time, for about `seconds`; the next sweep goes on from there.

    Two at once: one of them counts, the other finds nothing to do.
    """
    started = time.monotonic()
    database.fetch(BEGIN)
    ((settled,),) = database.fetch(SETTLED, lag=lag, longest=LONGEST_LAG)
    attempts, more = 0, True
    while more and time.monotonic() - started < seconds:
        rows = database.fetch_in_loops(COUNT_IF_NOT_COUNTED, settled=settled, batch=batch)
        # Crash here: counted and marked as counted together, or neither.
        number, more = rows[0] if rows else (0, False)
        attempts += number
    database.fetch(FORGET, days=KEPT_DAYS)
    return Counted(attempts, not more)

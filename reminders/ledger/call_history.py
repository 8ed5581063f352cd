"""What past calls tell about the load: from a bounded sample of the attempts on record."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

MOST_ATTEMPTS = 50_000
"""Attempts that are looked at, about: a sample of that many of whatever there are."""

# Blocks are sampled, so the statement reads about as much of a large ledger as of a small one. Of the first attempts the
# reminder tells when it was due; that is the demand, whatever the calls were spread to.
CALLS = Statement(
    "calls_sampled",
    """
WITH size AS MATERIALIZED (
    SELECT GREATEST(COALESCE(sum(GREATEST(c.reltuples, 0)), 0), 1)::float8 AS attempts
    FROM pg_partition_tree('{s}.delivery_attempts'::regclass) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf
), share AS MATERIALIZED (
    SELECT LEAST(1.0, :most / attempts) AS part FROM size
), sampled AS MATERIALIZED (
    SELECT a.reminder_id, a.claim_number, a.duration_ms
    FROM {s}.delivery_attempts a TABLESAMPLE SYSTEM (100 * (SELECT part FROM share))
    WHERE a.claimed_at >= clock_timestamp() - make_interval(secs => :age)
    LIMIT 2 * :most
), peak AS MATERIALIZED (
    SELECT count(*) AS number
    FROM sampled a JOIN {s}.reminders r ON r.id = a.reminder_id
    WHERE a.claim_number = 1
    GROUP BY floor(extract(epoch FROM r.due_at) / :within) ORDER BY 1 DESC LIMIT 1
)
SELECT count(*), count(*) FILTER (WHERE claim_number = 1), (SELECT part FROM share), (SELECT number FROM peak),
       percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE duration_ms IS NOT NULL),
       avg(duration_ms)::float8
FROM sampled
""",
    {"most": "integer", "age": "float8", "within": "float8"},
)


@dataclass(frozen=True, slots=True)
class CallHistory:
    """What a sample of the attempts says. Seconds; `part` is the share of all attempts that was looked at.

    `peak` is how many reminders were due within the busiest window, scaled up from the sample.
    """

    attempts: int
    part: float
    peak: float
    calls_per_reminder: float
    p50: float
    p95: float
    p99: float
    mean: float


def call_history(database: Database, *, age: float, within: float) -> CallHistory | None:
    """The calls of the last `age` seconds, in windows of `within`; None if there were none whose duration is known."""
    ((attempts, firsts, part, peak, percentiles, mean),) = database.fetch(
        CALLS, most=MOST_ATTEMPTS, age=age, within=within
    )
    if not firsts or mean is None:
        return None
    p50, p95, p99 = (each / 1000 for each in percentiles)
    return CallHistory(attempts, part, peak / part, attempts / firsts, p50, p95, p99, mean / 1000)

"""What became of everything in a ledger: for the demo's last page, and for whoever asks how late things were."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

SUMMARY = Statement(
    "summary",
    """
WITH firsts AS (
    SELECT r.id, extract(epoch FROM min(a.claimed_at) - r.due_at)::float8 AS late
    FROM {s}.reminders r JOIN {s}.delivery_attempts a ON a.reminder_id = r.id
    WHERE r.due_at >= r.created_at
    GROUP BY r.id, r.due_at
)
SELECT (SELECT json_object_agg(status, n) FROM (SELECT status, count(*) AS n FROM {s}.reminders_v1 GROUP BY status) s),
       (SELECT count(*) FROM {s}.reminders_v1 WHERE attempt_count > 1),
       (SELECT count(*) FROM firsts),
       (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY late) FROM firsts),
       (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY late) FROM firsts)
""",
    {},
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts by status; how many needed more than one attempt; seconds from due to the first attempt.

    Lateness counts reminders only that were scheduled ahead of their time; None without any.
    """

    counts: dict[str, int]
    retried: int
    on_time: int
    late_p50: float | None
    late_p99: float | None


def summary(database: Database) -> Summary:
    """Read the whole ledger: for small ones."""
    counts, retried, on_time, p50, p99 = database.fetch(SUMMARY)[0]
    return Summary(counts or {}, retried, on_time, p50, p99)

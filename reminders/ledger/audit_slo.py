"""What must hold of the facts of lateness."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

SLO: tuple[Check, ...] = (
    Check(
        "facts_beyond_totals",
        "Facts by day and tenant are no more than what was counted in all: each attempt is counted once.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, f.late_within || ' s: ' || f.called || ' called and ' || f.delivered || ' delivered by day, ' ||
       COALESCE(o.called, 0) || ' and ' || COALESCE(o.delivered, 0) || ' in all'
FROM (SELECT late_within, sum(called) AS called, sum(delivered) AS delivered FROM {s}.slo_days GROUP BY late_within) f
LEFT JOIN (
    SELECT label::float8 AS late_within, sum(value) FILTER (WHERE name = 'called') AS called,
           sum(value) FILTER (WHERE name = 'delivered') AS delivered
    FROM {s}.totals WHERE name IN ('called', 'delivered') GROUP BY label
) o USING (late_within)
WHERE f.called > COALESCE(o.called, 0) OR f.delivered > COALESCE(o.delivered, 0)""",
        "Rows of `slo_days` or `totals` were changed by hand: what `status --slo` shows of those days is not what happened.",
    ),
)

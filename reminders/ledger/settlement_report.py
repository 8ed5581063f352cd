"""What a run of reconciliation came to, as sums and lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.ledger.caller import fetch
from reminders.ledger.database import Row
from reminders.ledger.settlement_decisions import STANDING_OF_REMINDER, WITH_REMINDERS
from reminders.ledger.statement import Statement

_RUN = """
SELECT id::text, source, kind, file_name, CASE WHEN kind IN ('file', 'page') THEN subject END, actor,
       CASE WHEN status = 'running' AND lease_until <= clock_timestamp() THEN 'interrupted' ELSE status END, step,
       CASE WHEN only_page IS NULL THEN next_page - 1 ELSE next_page - only_page END, pages, only_page, reminders,
       started_at, heard_at, finished_at, error, lines_new + lines_changed + lines_unchanged + lines_rejected,
       lines_new, lines_changed, lines_unchanged, lines_rejected
FROM {s}.reconciliation_runs"""

RUN = Statement("reconciliation_run", f"{_RUN} WHERE id = :id", {"id": "uuid"})

RUNS = Statement(
    "reconciliation_runs",
    f"{_RUN} WHERE (:source IS NULL OR source = :source) ORDER BY started_at DESC, id DESC LIMIT :limit",
    {"source": "text", "limit": "integer"},
)

CATEGORIES = Statement(
    "reconciliation_categories",
    """
SELECT category, currency, lines, gross, fee, net FROM {s}.reconciliation_run_sums WHERE run_id = :id
ORDER BY category, currency
""",
    {"id": "uuid"},
)

DECISIONS = Statement(
    "reconciliation_decision_sums",
    """
SELECT d.name, d.currency, count(*), sum(d.amount)
FROM {s}.reconciliation_run_decisions m JOIN {s}.reconciliation_decisions d ON d.id = m.decision_id
WHERE m.run_id = :id AND d.withdrawn_at IS NULL
GROUP BY d.name, d.currency ORDER BY d.name, d.currency
""",
    {"id": "uuid"},
)

OUTCOMES = Statement(
    "reconciliation_outcomes",
    "SELECT outcome, count(*) FROM {s}.reconciliation_run_decisions WHERE run_id = :id GROUP BY outcome ORDER BY outcome",
    {"id": "uuid"},
)

# Over all files: a payout may lie in two, and a part of a file has a part of it. Lines in other currencies are no part of it.
PAYOUTS = Statement(
    "reconciliation_payouts",
    """
WITH payouts AS (
    SELECT p.payout_id, l.currency, sum(l.net) FILTER (WHERE l.category NOT IN ('payout', 'payout_reversal')) AS lines,
           sum(l.net) FILTER (WHERE l.category IN ('payout', 'payout_reversal')) AS paid
    FROM {s}.reconciliation_run_payouts p
    JOIN {s}.settlement_lines l ON l.source = :source AND l.payout_id = p.payout_id
    WHERE p.run_id = :id
    GROUP BY p.payout_id, l.currency
), off AS (
    SELECT payout_id, currency, COALESCE(lines, 0) AS lines, paid, lines + paid AS difference FROM payouts o
    WHERE COALESCE(lines, 0) + paid <> 0
       OR paid IS NULL AND NOT EXISTS (SELECT 1 FROM payouts b WHERE b.payout_id = o.payout_id AND b.paid IS NOT NULL)
)
SELECT payout_id, currency, lines, paid, COALESCE(lines, 0) + paid, count(*) OVER () FROM off
ORDER BY payout_id, currency LIMIT :limit
""",
    {"id": "uuid", "source": "text", "limit": "integer"},
)

UNMATCHED = Statement(
    "reconciliation_unmatched",
    """
SELECT d.line_id, d.currency, d.amount, d.reason, count(*) OVER ()
FROM {s}.reconciliation_run_decisions m JOIN {s}.reconciliation_decisions d ON d.id = m.decision_id
WHERE m.run_id = :id AND d.name = 'unknown_order' AND d.withdrawn_at IS NULL
ORDER BY d.line_id LIMIT :limit
""",
    {"id": "uuid", "limit": "integer"},
)

REJECTS = Statement(
    "reconciliation_rejects",
    """
SELECT line, field, reason, count(*) OVER () FROM {s}.reconciliation_rejects WHERE run_id = :id
ORDER BY line, reason LIMIT :limit
""",
    {"id": "uuid", "limit": "integer"},
)

CHANGES = Statement(
    "reconciliation_changes",
    """
SELECT m.outcome, d.name, d.order_reference, d.line_id, d.payout_id, d.currency, d.amount, COALESCE(m.note, ''), count(*) OVER ()
FROM {s}.reconciliation_run_decisions m JOIN {s}.reconciliation_decisions d ON d.id = m.decision_id
WHERE m.run_id = :id AND (m.outcome IN ('corrected', 'withdrawn', 'repaired') OR m.note IS NOT NULL)
ORDER BY m.outcome, d.name, d.order_reference, d.line_id, d.payout_id LIMIT :limit
""",
    {"id": "uuid", "limit": "integer"},
)

NOT_TOLD = Statement(
    "reconciliation_not_told",
    """
SELECT CASE d.told WHEN 'no_rule' THEN 'no rule' WHEN 'too_old' THEN 'too old' WHEN 'off' THEN 'reminders off'
                   ELSE COALESCE(d.told_reason, 'refused') END AS why, count(*)
FROM {s}.reconciliation_run_decisions m JOIN {s}.reconciliation_decisions d ON d.id = m.decision_id
WHERE m.run_id = :id AND d.withdrawn_at IS NULL AND d.told IN ('no_rule', 'too_old', 'off', 'refused')
GROUP BY why ORDER BY count(*) DESC, why LIMIT :limit
""",
    {"id": "uuid", "limit": "integer"},
)

REMINDERS = Statement(
    "reconciliation_reminders",
    f"""
SELECT {STANDING_OF_REMINDER} AS standing, count(*)
FROM {{s}}.reconciliation_run_decisions m JOIN {{s}}.reconciliation_decisions d ON d.id = m.decision_id{WITH_REMINDERS}
WHERE m.run_id = :id AND d.reminder_id IS NOT NULL
GROUP BY standing ORDER BY standing
""",
    {"id": "uuid"},
)

STATUSES = Statement(
    "reconciliation_statuses",
    f"""
SELECT d.name, COALESCE({STANDING_OF_REMINDER}, d.told) AS standing, count(*)
FROM {{s}}.reconciliation_decisions d{WITH_REMINDERS}
WHERE d.source = :source AND d.withdrawn_at IS NULL
GROUP BY d.name, standing ORDER BY d.name, standing
""",
    {"source": "text"},
)


def run(connection: DriverConnection, schema: str, run_id: UUID) -> Row | None:
    """One run, in the order of the fields of `RunSummary`."""
    rows = fetch(connection, schema, RUN, id=str(run_id))
    return rows[0] if rows else None


def runs(connection: DriverConnection, schema: str, source: str | None, limit: int) -> list[Row]:
    """The newest runs first, each as `run` gives it."""
    return fetch(connection, schema, RUNS, source=source, limit=limit)


def sums(connection: DriverConnection, schema: str, statement: Statement, **given: Any) -> list[Row]:
    """The rows of one of this module's statements about sums."""
    return fetch(connection, schema, statement, **given)


def listed(connection: DriverConnection, schema: str, statement: Statement, **given: Any) -> tuple[Sequence[Row], int]:
    """The rows of one of this module's lists, and how many there are beyond the limit too."""
    rows = fetch(connection, schema, statement, **given)
    return [row[:-1] for row in rows], rows[0][-1] if rows else 0

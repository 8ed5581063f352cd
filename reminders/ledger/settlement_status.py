"""How reconciliation stands, in four numbers and a time."""

from __future__ import annotations

from typing import Any

from reminders.calendar.instants import instant_text
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

STATUS = Statement(
    "reconciliation_status",
    """
SELECT (SELECT max(finished_at) FROM {s}.reconciliation_runs WHERE status = 'finished'),
       (SELECT count(*) FROM {s}.reconciliation_runs WHERE status = 'running' AND lease_until > clock_timestamp()),
       (SELECT count(*) FROM {s}.reconciliation_runs WHERE status = 'running' AND lease_until <= clock_timestamp()),
       (SELECT count(*) FROM {s}.reconciliation_files WHERE status = 'receiving' AND url IS NOT NULL),
       (SELECT count(*) FROM {s}.reconciliation_files
        WHERE status = 'refused' AND created_at > clock_timestamp() - interval '2 days'),
       EXISTS (SELECT 1 FROM {s}.reconciliation_runs) OR EXISTS (SELECT 1 FROM {s}.reconciliation_files)
""",
    {},
)


def reconciliation_status(database: Database) -> dict[str, Any] | None:
    """None where nothing was ever reconciled. `broken_off` runs are held by nobody; `refused` are files of two days."""
    finished, running, broken_off, fetching, refused, any_at_all = database.fetch(STATUS)[0]
    if not any_at_all:
        return None
    return {
        "last_finished_at": None if finished is None else instant_text(finished),
        "running": running,
        "broken_off": broken_off,
        "fetching": fetching,
        "refused": refused,
    }

"""Work on settlement files that are kept: which run has one, and which were left alone."""

from __future__ import annotations

from uuid import UUID

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

START = Statement(
    "settlement_file_start",
    """
UPDATE {s}.reconciliation_files SET status = 'running', run_id = :run, touched_at = clock_timestamp()
WHERE id = :id AND status IN ('ready', 'running', 'done')
RETURNING 1
""",
    {"id": "uuid", "run": "uuid"},
)

STEP = Statement(
    "settlement_file_step",
    """
UPDATE {s}.reconciliation_files
SET status = CASE WHEN :done THEN 'done' ELSE status END, touched_at = clock_timestamp()
WHERE id = :id AND status = 'running' AND run_id = :run
RETURNING 1
""",
    {"id": "uuid", "run": "uuid", "done": "boolean"},
)

LEFT_ALONE = Statement(
    "settlement_file_left_alone",
    """
SELECT id::text, run_id::text FROM {s}.reconciliation_files
WHERE status IN ('receiving', 'running') AND (status = 'running' OR url IS NOT NULL)
  AND touched_at < clock_timestamp() - make_interval(secs => :idle)
ORDER BY touched_at LIMIT 100
""",
    {"idle": "float8"},
)


def start(database: Database, file_id: UUID, run_id: UUID) -> bool:
    """A run works on it. False if it is not complete."""
    return bool(database.fetch(START, id=str(file_id), run=str(run_id)))


def step(database: Database, file_id: UUID, run_id: UUID, *, done: bool) -> bool:
    """Its run has gone on, or is done. False if another run works on it."""
    return bool(database.fetch(STEP, id=str(file_id), run=str(run_id), done=done))


def left_alone(database: Database, idle: float) -> list[tuple[UUID, UUID | None]]:
    """Files, with their runs, at which nobody has worked for `idle` seconds, though they are not done."""
    return [(UUID(row[0]), UUID(row[1]) if row[1] else None) for row in database.fetch(LEFT_ALONE, idle=idle)]

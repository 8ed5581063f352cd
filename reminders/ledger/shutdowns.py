"""Which workers were told to stop: what they leave unfinished says nothing against the reminder they worked on."""

from __future__ import annotations

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

LOCK_TIMEOUT_MS = 500

# A worker's name is never used again, so its row is of no use once its last claim has been put right.
RECORD = Statement(
    "record_shutdown",
    """
WITH old AS (
    DELETE FROM {s}.shutdowns WHERE asked_at < clock_timestamp() - interval '30 days' AND worker <> :worker
)
INSERT INTO {s}.shutdowns (worker, asked_at) VALUES (:worker, clock_timestamp() - make_interval(secs => :ago))
ON CONFLICT (worker) DO NOTHING
RETURNING 1
""",
    {"worker": "text", "ago": "float8"},
)


def record_shutdown(database: Database, worker: str, ago: float) -> None:
    """Note, and commit, that `worker` was told to stop `ago` seconds ago; only the first time counts.

    Waits half a second at most for other workers that do the same.
    """
    database.fetch_within(LOCK_TIMEOUT_MS, RECORD, worker=worker, ago=ago)

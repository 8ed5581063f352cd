"""Purging what reconciliation keeps: files, runs, and lines with what was decided of them; a few at a time, oldest first.

Lines go by the order they belong to, when all of them are old: a decision must never follow from half of an order's lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, Database
from reminders.ledger.statement import Statement

FILE_PAGES = 50
"""Pages of a file that one step deletes: some ten megabytes."""
RUN_ROWS = 2000
LINES = 500

FILES = Statement(
    "purge_settlement_files",
    """
WITH old AS MATERIALIZED (
    SELECT id FROM {s}.reconciliation_files WHERE created_at < :cutoff AND touched_at < :cutoff ORDER BY created_at LIMIT 1
), content AS MATERIALIZED (
    SELECT p.file_id, p.number FROM {s}.reconciliation_file_pages p WHERE p.file_id = (SELECT id FROM old)
    ORDER BY p.number LIMIT :size
), emptied AS (
    DELETE FROM {s}.reconciliation_file_pages p USING content c WHERE p.file_id = c.file_id AND p.number = c.number
), gone AS (
    DELETE FROM {s}.reconciliation_files f USING old
    WHERE f.id = old.id AND (SELECT count(*) FROM content) < :size RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old)
""",
    {"cutoff": "timestamptz", "size": "integer"},
)

RUNS = Statement(
    "purge_reconciliation_runs",
    """
WITH old AS MATERIALIZED (
    SELECT id FROM {s}.reconciliation_runs WHERE started_at < :cutoff AND heard_at < :cutoff ORDER BY started_at LIMIT 1
), met AS MATERIALIZED (
    SELECT d.run_id, d.decision_id FROM {s}.reconciliation_run_decisions d WHERE d.run_id = (SELECT id FROM old) LIMIT :size
), rejected AS MATERIALIZED (
    SELECT r.run_id, r.line FROM {s}.reconciliation_rejects r WHERE r.run_id = (SELECT id FROM old) LIMIT :size
), emptied AS (
    DELETE FROM {s}.reconciliation_run_decisions d USING met m WHERE d.run_id = m.run_id AND d.decision_id = m.decision_id
), cleared AS (
    DELETE FROM {s}.reconciliation_rejects r USING rejected x WHERE r.run_id = x.run_id AND r.line = x.line
), gone AS (
    DELETE FROM {s}.reconciliation_runs r USING old
    WHERE r.id = old.id AND (SELECT count(*) FROM met) < :size AND (SELECT count(*) FROM rejected) < :size RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old)
""",
    {"cutoff": "timestamptz", "size": "integer"},
)

SOURCES = Statement(
    "purge_settlement_sources",
    "SELECT name FROM {s}.settlement_sources WHERE name > :after ORDER BY name LIMIT 1",
    {"after": "text"},
)

# A page of a run holds the row, and so do we: neither sees half of the other. A purge waits for nobody.
TURN = Statement(
    "purge_settlement_turn",
    "SELECT 1 FROM {s}.settlement_sources WHERE name = :source FOR NO KEY UPDATE SKIP LOCKED",
    {"source": "text"},
)

LINES_OF = Statement(
    "purge_settlement_lines",
    """
WITH seen AS MATERIALIZED (
    SELECT COALESCE(payout_at, created_at) AS age, line_id, group_key FROM {s}.settlement_lines
    WHERE source = :source AND COALESCE(payout_at, created_at) < :cutoff
      AND (COALESCE(payout_at, created_at), line_id) > (:after, :after_id)
    ORDER BY COALESCE(payout_at, created_at), line_id LIMIT :size
), over AS MATERIALIZED (
    SELECT k.group_key FROM (SELECT DISTINCT group_key FROM seen) k
    WHERE NOT EXISTS (SELECT 1 FROM {s}.settlement_lines l WHERE l.source = :source AND l.group_key = k.group_key
                      AND COALESCE(l.payout_at, l.created_at) >= :cutoff)
), lines AS MATERIALIZED (
    SELECT l.line_id FROM {s}.settlement_lines l WHERE l.source = :source AND l.group_key = ANY (ARRAY(SELECT group_key FROM over))
), kept AS MATERIALIZED (
    SELECT d.id FROM {s}.reconciliation_decisions d
    WHERE d.source = :source AND d.line_id = ANY (ARRAY(SELECT line_id FROM lines))
    UNION
    SELECT d.id FROM {s}.reconciliation_decisions d
    WHERE d.source = :source AND d.line_id IS NULL
      AND d.order_reference = ANY (ARRAY(SELECT substr(group_key, 3) FROM over WHERE group_key LIKE 'o:%'))
), decisions AS (
    DELETE FROM {s}.reconciliation_decisions d WHERE d.id = ANY (ARRAY(SELECT id FROM kept)) RETURNING 1
), gone AS (
    DELETE FROM {s}.settlement_lines l WHERE l.source = :source AND l.line_id = ANY (ARRAY(SELECT line_id FROM lines)) RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM decisions), max(age), max(line_id) FROM (
    SELECT age, line_id FROM seen ORDER BY age DESC, line_id DESC LIMIT 1) last
""",
    {
        "source": "text", "cutoff": "timestamptz", "after": "timestamptz", "after_id": "text", "size": "integer",
    },
)  # fmt: skip

COUNT = Statement(
    "purge_settlement_count",
    """
SELECT (SELECT count(*) FROM {s}.reconciliation_files WHERE created_at < :files AND touched_at < :files),
       (SELECT count(*) FROM {s}.reconciliation_runs WHERE started_at < :cutoff AND heard_at < :cutoff),
       (SELECT count(*) FROM {s}.settlement_lines l WHERE COALESCE(payout_at, created_at) < :cutoff
          AND NOT EXISTS (SELECT 1 FROM {s}.settlement_lines n WHERE n.source = l.source AND n.group_key = l.group_key
                          AND COALESCE(n.payout_at, n.created_at) >= :cutoff))
""",
    {"files": "timestamptz", "cutoff": "timestamptz"},
)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a purge has come among the lines of a source: the age and id of the last that it has looked at."""

    source: str
    age: datetime | str = "-infinity"
    line_id: str = ""


def purge_file(database: Database, cutoff: datetime) -> tuple[int, bool]:
    """Delete the oldest file that nobody has touched since, or some of its pages. How many files went; whether to go on."""
    gone, found = database.fetch(FILES, cutoff=cutoff, size=FILE_PAGES)[0]
    return gone, bool(found)


def purge_run(database: Database, cutoff: datetime) -> tuple[int, bool]:
    """The same of runs; what a run decided is not its own, and stays."""
    gone, found = database.fetch(RUNS, cutoff=cutoff, size=RUN_ROWS)[0]
    return gone, bool(found)


def purge_lines(database: Database, cutoff: datetime, place: Place) -> tuple[int, int, Place | None]:
    """Look at the next old lines of a source, and delete those orders' whose lines are all old.

    How many lines and decisions went, and where to go on: None when nothing is left.
    """
    given = {"cutoff": cutoff, "after": place.age, "after_id": place.line_id, "size": LINES}
    lines, decisions, age, line_id = 0, 0, None, ""
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(INDEXES_ONLY)
        if fetch(connection, database.schema, TURN, source=place.source):
            found = fetch(connection, database.schema, LINES_OF, source=place.source, **given)
            lines, decisions, age, line_id = found[0]
    # Crash here, or before: whole orders are gone with what was decided of them, or none of it.
    return lines, decisions, next_source(database, place.source) if age is None else Place(place.source, age, line_id)


def next_source(database: Database, after: str = "") -> Place | None:
    """Where the lines of the next source begin."""
    rows = database.fetch(SOURCES, after=after)
    return Place(rows[0][0]) if rows else None


def count(database: Database, files: datetime, cutoff: datetime) -> tuple[int, int, int]:
    """How many files, runs and lines would go. Reads them all."""
    with database.transaction() as connection:
        files_found, runs, lines = fetch(connection, database.schema, COUNT, files=files, cutoff=cutoff)[0]
    return files_found, runs, lines

"""Retention of what reconciliation keeps: files as long as reminders, lines, decisions and runs by a setting of their own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from reminders.ledger.database import Database
from reminders.ledger.purging import cutoff_of
from reminders.ledger.settlement_purging import count, next_source, purge_file, purge_lines, purge_run


@dataclass(frozen=True, slots=True)
class SettlementsPurged:
    """How many are gone, or would be. `complete` if no more was to be done now."""

    files: int
    runs: int
    lines: int
    decisions: int
    complete: bool


def purge_settlements(
    database: Database, *, files: float, others: float, seconds: float | None = None, now: datetime | None = None
) -> SettlementsPurged:
    """Delete files that nobody has touched for `files` seconds, and runs, lines and decisions after `others` seconds.

    Ends after about `seconds`; the next one begins where something is left. `now` replaces the database's clock in tests.
    """
    ends_at = None if seconds is None else time.monotonic() + seconds
    of_files, of_others = cutoff_of(database, files, now), cutoff_of(database, others, now)

    def is_time() -> bool:
        return ends_at is None or time.monotonic() < ends_at

    gone = {"files": 0, "runs": 0}
    for name, step, cutoff in (("files", purge_file, of_files), ("runs", purge_run, of_others)):
        more = True
        while more and is_time():
            number, more = step(database, cutoff)
            gone[name] += number
        if more:
            return SettlementsPurged(gone["files"], gone["runs"], 0, 0, complete=False)
    lines = decisions = 0
    place = next_source(database)
    while place is not None and is_time():
        more_lines, more_decisions, place = purge_lines(database, of_others, place)
        lines, decisions = lines + more_lines, decisions + more_decisions
    return SettlementsPurged(gone["files"], gone["runs"], lines, decisions, complete=place is None)


def rehearse_settlements(database: Database, *, files: float, others: float) -> SettlementsPurged:
    """What `purge_settlements` would delete now; decisions are not counted."""
    found = count(database, cutoff_of(database, files, None), cutoff_of(database, others, None))
    return SettlementsPurged(*found, decisions=0, complete=True)

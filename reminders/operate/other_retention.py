"""Retention of everything beside reminders and reconciliation: each table is walked, and what has long been over goes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from reminders.ledger.database import Database, LockNotAvailable
from reminders.ledger.retention_rules import GOES
from reminders.ledger.walking import REMOVED, look, removable, remove


@dataclass(frozen=True, slots=True)
class OthersPurged:
    """How many rows are gone, or would be at most, by table; those of `series` stay as rows. `complete` if no more was to be done."""

    gone: dict[str, int]
    complete: bool


def purge_others(
    database: Database,
    *,
    reminders: float,
    evidence: float,
    seconds: float | None = None,
    now: datetime | None = None,
    dry_run: bool = False,
) -> OthersPurged:
    """Remove what has been over for `reminders` seconds, or, of what people have said and done, for `evidence` seconds.

    A tenant may have it otherwise (`retention_policies`). Ends after about `seconds`; the next run begins anew. `now` replaces the
    database's clock in tests. With `dry_run` it only counts.
    """
    end = None if seconds is None else time.monotonic() + seconds
    keeps = {"reminders": reminders, "evidence": max(evidence, reminders)}
    gone: dict[str, int] = {}
    for table in GOES:
        after, more = None, True
        while more:
            if end is not None and time.monotonic() >= end:
                return OthersPurged(gone, complete=False)
            page = look(database, table, keeps, after, now)
            after, more = page.last, page.last is not None
            act = _count if dry_run else _remove
            number = act(database, table, keeps, page.candidates, now)
            if number:
                gone[table] = gone.get(table, 0) + number
    return OthersPurged(gone, complete=True)


def _count(database: Database, table: str, keeps: dict[str, float], keys: list[str], now: datetime | None) -> int:
    return removable(database, table, keeps, keys, now) if keys else 0


def _remove(database: Database, table: str, keeps: dict[str, float], keys: list[str], now: datetime | None) -> int:
    gone = 0
    for start in range(0, len(keys), REMOVED):
        try:
            gone += remove(database, table, keeps, keys[start : start + REMOVED], now)
        except LockNotAvailable:
            # Somebody alters or holds what goes with it: another night.
            continue
    return gone

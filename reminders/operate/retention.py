"""Retention: what ended long ago is purged, in steps of milliseconds that may be cut off anywhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from reminders.domain.errors import InvalidInput
from reminders.ledger.attempt_months import drop_empty_months
from reminders.ledger.database import Database
from reminders.ledger.purge_counting import count
from reminders.ledger.purging import StepTooSlow, cutoff_of, join_pass, settle, step
from reminders.settings import Settings

PATIENCE = 2.0
"""Seconds for which a run waits for transactions that are older than the marks it would delete by."""
LONG_STEP, SHORT_STEP = 0.03, 0.01
"""Seconds that a step may hold its rows; beyond the first the next one is smaller, below the second larger."""
LONGEST_MS = 45
"""Milliseconds after which a step is broken off that still locks its rows, or works on them, and tried again with fewer."""
MOST_BROKEN_OFF = 6
"""Steps that may be broken off in a row; the next one, by then a smallest, may take as long as it does."""
FIRST_SIZE, SMALLEST_SIZE, LARGEST_SIZE = 100, 20, 1000
"""Reminders that a step looks at."""


@dataclass(frozen=True, slots=True)
class Purged:
    """What a run did, or in a dry run would do at most.

    `purged` reminders are gone; `marked` ones are deleted by the next pass. `complete` if no more was to be done now.
    `waiting` passes have marked what cannot be deleted yet, because transactions are still open that are older.
    """

    purged: int
    marked: int
    complete: bool
    waiting: int
    months: list[str]


def not_within_window(name: str, seconds: float, settings: Settings) -> None:
    """Refuse to keep reminders for less than destinations remember keys, as the setting does. Raises `InvalidInput` for `name`."""
    if seconds < settings.dedup_window:
        raise InvalidInput(
            name, f"must not be below REMINDERS_DEDUP_WINDOW ({settings.dedup_window:g} s); this is {seconds:g} s"
        )


def purge(
    database: Database,
    older_than: float,
    *,
    seconds: float | None = None,
    limit: int | None = None,
    now: datetime | None = None,
    patience: float = PATIENCE,
) -> Purged:
    """Carry on the pass that is under way, or begin one, over all that ended more than `older_than` seconds ago.

    Ends after about `seconds`, or when `limit` reminders were marked or deleted; the next run goes on from there.
    `now` replaces the database's clock in tests.
    """
    started = time.monotonic()
    waiting = _settled(database, started + patience)
    current = join_pass(database, older_than, now)
    purged = marked = 0
    size, more, left, broken_off = FIRST_SIZE, True, limit, 0
    while more and (seconds is None or time.monotonic() - started < seconds) and (left is None or left > 0):
        begun = time.monotonic()
        longest = None if broken_off >= MOST_BROKEN_OFF else LONGEST_MS
        try:
            done = step(database, current, size, size + 1 if left is None else left, longest)
        except StepTooSlow:
            size, broken_off = max(SMALLEST_SIZE, size // 4), broken_off + 1
            continue
        broken_off = 0
        purged, marked, more = purged + done.purged, marked + done.marked, done.more
        left = None if left is None else left - done.purged - done.marked
        size = _next_size(size, time.monotonic() - begun)
    if not more:
        settle(database)
    months = [] if more else drop_empty_months(database, current.cutoff)
    return Purged(purged, marked, not more, waiting, months)


def rehearse(database: Database, older_than: float, *, now: datetime | None = None) -> Purged:
    """What `purge` would find now. Nothing is changed or locked."""
    marked, purged = count(database, older_than, cutoff_of(database, older_than, now), LARGEST_SIZE)
    return Purged(purged, marked, complete=True, waiting=0, months=[])


def _settled(database: Database, give_up_at: float) -> int:
    """How many passes must still wait, after a little patience: most transactions last milliseconds."""
    while (waiting := settle(database)) and time.monotonic() < give_up_at:
        time.sleep(0.1)
    return waiting


def _next_size(size: int, took: float) -> int:
    if took > LONG_STEP:
        return max(SMALLEST_SIZE, size // 2)
    return min(LARGEST_SIZE, size * 2) if took < SHORT_STEP else size

"""Quarantine: what must be done with a ledger that was restored from a backup, before a worker starts on it.

A pause of everything is committed first and ended last, so that a worker that is started too early, or after a run that was
cut off, sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reminders.broker.gauge import RedisGauge
from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput, Refused
from reminders.domain.pauses import PauseScope
from reminders.ledger.connections import connections_of
from reminders.ledger.database import Database
from reminders.ledger.pausing import pause, resume
from reminders.ledger.planning import plan_due
from reminders.ledger.quarantining import (
    Counted,
    Quarantine,
    begin,
    clock,
    count,
    cut,
    decided_about,
    end,
    give_up,
    note_planned,
    quarantines,
    step,
    undecided_series,
)
from reminders.ledger.review import checked_words
from reminders.settings import Settings

WORKERS = "reminders"
"""What the connections of workers and scanners call themselves."""
PAUSED_BY, PAUSED_FOR = "quarantine", "a restored ledger is in quarantine"
SERIES_AT_ONCE = 100
PATIENCE = 30.0
"""Seconds to wait for applications that hold a series or one of its turns."""
LOOK_EVERY = 0.5
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What a run came to. `already` if the quarantine had been finished before; `faulty` are series that cannot be planned."""

    quarantine: Quarantine
    already: bool
    faulty: list[str]


def rehearse(database: Database, settings: Settings, since: datetime, *, letters: bool = True) -> Counted:
    """What `quarantine` would do now. Raises `InvalidInput` if `since` is in the future."""
    _checked(database, since)
    return count(database, since, window=settings.dedup_window, letters=letters)


def quarantine(
    database: Database,
    settings: Settings,
    since: datetime,
    *,
    formats: Mapping[str, int],
    actor: str,
    reason: str,
    letters: bool = True,
    broker: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Quarantined:
    """Make a ledger that was restored to `since` fit for workers. Cut off anywhere, it goes on when it is said again.

    `formats` are the body formats that claims pin, by channel. With `letters`, a person must look at open dead letters again,
    for they may have been redriven. Without `broker` nobody is asked for in Redis. Raises `InvalidInput` without `actor` and
    `reason`; `Refused` while workers or scanners are connected; `ServiceUnavailable` if an application holds what it needs.
    """
    said = {"actor": checked_words("actor", actor), "reason": checked_words("reason", reason)}
    _checked(database, since)
    newest = next(iter(quarantines(database, 1)), None)
    standing = decided_about(newest, since)
    if newest is not None and standing == "done":
        return Quarantined(newest, already=True, faulty=[])
    refuse_if_connected(database, settings, broker=broker)
    if newest is not None and standing == "given_up":
        give_up(database, newest)
    if newest is not None and standing == "unfinished":
        current = newest
    else:
        paused = pause(database, PauseScope(), actor=PAUSED_BY, reason=PAUSED_FOR).pause
        # Crash here: everything is paused, and the next run finds that pause.
        current = begin(database, since=since, pause_id=paused.id, letters=letters, said=said)
    # Whoever was started between the first look and the pause may still have something in hand.
    refuse_if_connected(database, settings, broker=broker)
    faulty: list[str] = []
    if current.cutoff is None:
        faulty = _plan(database, current)
        cut(database, current)
        current = quarantines(database, 1)[0]
    tell(f"judging what was due by {instant_text(current.cutoff or current.started_at)}")
    while step(database, current, window=settings.dedup_window, formats=formats):
        pass
    resume(database, [current.pause_id], actor=PAUSED_BY, reason="the quarantine has ended")
    # Crash here: workers may start; the next run has nothing left to do but to say so.
    end(database, current)
    return Quarantined(quarantines(database, 1)[0], already=False, faulty=faulty)


def refuse_if_connected(database: Database, settings: Settings, *, broker: bool) -> None:
    """Raise `Refused` if a worker or scanner is there, by Postgres's word or by Redis's, or if Redis cannot be asked."""
    if told := connected(database, settings, broker=broker):
        raise Refused(
            f"{'; '.join(told)}\nStop every worker and scanner, of the old installation too, then run this again. "
            "A connection that a dead host has left, pg_terminate_backend(PID) ends."
        )


def connected(database: Database, settings: Settings, *, broker: bool) -> list[str]:
    """Why workers or scanners count as connected, in a line each; nothing if none do."""
    told = []
    if found := connections_of(database, WORKERS):
        shown = ", ".join(f"{pid} from {where}" for pid, where in found[:SHOWN])
        told.append(f"{len(found)} connections of workers or scanners to Postgres are open ({shown})")
    if broker:
        gauge = RedisGauge(settings)
        workers = gauge.workers()
        gauge.close()
        if workers is None:
            told.append("Redis does not answer, so nobody can say which workers live; --without-redis if it is gone")
        elif workers:
            told.append(f"workers live: {', '.join(f'{each.node} ({each.pid})' for each in workers[:SHOWN])}")
    return told


def _checked(database: Database, since: datetime) -> None:
    if since > clock(database):
        raise InvalidInput("since", "is in the future, by the ledger's clock")


def _plan(database: Database, current: Quarantine) -> list[str]:
    """Decide on the turns of series that came meanwhile, which may all have been sent; ids of series that cannot be planned.

    The planner would make them once workers run, as if nobody had ever sent them.
    """
    give_up_at = time.monotonic() + PATIENCE
    while True:
        while planned := plan_due(database, SERIES_AT_ONCE, None):
            note_planned(database, current, planned)
        held, faulty = undecided_series(database)
        if not held:
            return faulty
        if time.monotonic() > give_up_at:
            raise Refused(
                f"series {held[0]} cannot be planned: an application holds it, or a turn of it\n"
                "Let that transaction end (pg_stat_activity), then run this again; everything stays paused meanwhile."
            )
        time.sleep(LOOK_EVERY)

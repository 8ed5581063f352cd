"""The record of a quarantine, and its steps: each is one transaction that has happened or not, and is found again by the next run."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import Refused
from reminders.domain.identity import uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database, Row
from reminders.ledger.quarantine_moves import COUNT, LOCK_DUE, LOCK_REMINDERS, MOVE, PAGE, VERDICTS
from reminders.ledger.statement import Statement

EPOCHS_FROM = datetime(2026, 1, 1, tzinfo=UTC)
"""The first version of an epoch is the number of seconds since then. Versions that a lost part of a ledger has made are lower,
unless a reminder was moved more than once a second; a counter kept in the ledger would be lost with it."""
LOWEST_EPOCH = 1_000_000
"""Versions below are of before any quarantine: nothing is moved that often."""
PAGE_SIZE = 500
"""Reminders that one step looks at."""
_BEGIN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"
_BEGIN_COUNTING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off"
_BEFORE_ALL = str(UUID(int=0))
_COLUMNS = ", ".join(("planned", *VERDICTS))

CLOCK = Statement("quarantine_clock", "SELECT clock_timestamp()", {})

LIST = Statement(
    "quarantine_list",
    f"""
SELECT id::text, since, base, pause_id::text, letters, actor, host, reason, started_at, cutoff, ended_at, reached::text, {_COLUMNS}
FROM {{s}}.quarantines ORDER BY started_at DESC, id DESC LIMIT :limit
""",
    {"limit": "integer"},
)

BEGIN = Statement(
    "quarantine_begin",
    """
INSERT INTO {s}.quarantines (id, since, base, pause_id, letters, actor, host, reason)
SELECT :id, :since, GREATEST(COALESCE((SELECT max(base) FROM {s}.quarantines) + 1, 1),
                             floor(extract(epoch FROM clock_timestamp() - :epochs_from))::integer),
       :pause, :letters, :actor, :host, :reason
ON CONFLICT ((ended_at IS NULL)) WHERE ended_at IS NULL DO NOTHING
RETURNING 1
""",
    {
        "id": "uuid", "since": "timestamptz", "epochs_from": "timestamptz", "pause": "uuid", "letters": "boolean", "actor": "text",
        "host": "text", "reason": "text",
    },
)  # fmt: skip

# A backup may hold one that was under way: it is over, and what it had not reached is the next one's.
GIVE_UP = Statement(
    "quarantine_give_up",
    """
UPDATE {s}.quarantines SET cutoff = COALESCE(cutoff, started_at), ended_at = clock_timestamp()
WHERE id = :id AND ended_at IS NULL RETURNING 1
""",
    {"id": "uuid"},
)

SERIES_LEFT = Statement(
    "quarantine_series_left",
    """
SELECT id::text, fault IS NOT NULL FROM {s}.series
WHERE status = 'active' AND LEAST(planned_until, plan_at) <= clock_timestamp() ORDER BY id LIMIT :limit
""",
    {"limit": "integer"},
)

SERIES_DUE = Statement(
    "quarantine_series_due",
    "SELECT count(*) FROM {s}.series WHERE plan_at <= clock_timestamp()",
    {},
)

NOTE_PLANNED = Statement(
    "quarantine_note_planned",
    "UPDATE {s}.quarantines SET planned = planned + :count WHERE id = :id RETURNING 1",
    {"id": "uuid", "count": "integer"},
)

CUT = Statement(
    "quarantine_cut",
    "UPDATE {s}.quarantines SET cutoff = clock_timestamp() WHERE id = :id AND cutoff IS NULL RETURNING 1",
    {"id": "uuid"},
)

LOCK = Statement(
    "quarantine_lock",
    "SELECT reached::text FROM {s}.quarantines WHERE id = :id AND ended_at IS NULL FOR NO KEY UPDATE",
    {"id": "uuid"},
)

SKIP = Statement(
    "quarantine_skip",
    "UPDATE {s}.quarantines SET reached = :reached WHERE id = :id RETURNING 1",
    {"id": "uuid", "reached": "uuid"},
)

END = Statement(
    "quarantine_end",
    "UPDATE {s}.quarantines SET ended_at = clock_timestamp() WHERE id = :id AND ended_at IS NULL RETURNING 1",
    {"id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """One quarantine. `since` is what the ledger was restored to, `cutoff` when its verdicts are as of; instants are UTC.

    `counts` tells of how many reminders each verdict was. `base` is the first version of the epoch it began. With `letters`,
    dead letters that were open count as perhaps redriven.
    """

    id: UUID
    since: datetime
    base: int
    pause_id: UUID
    letters: bool
    actor: str
    host: str
    reason: str
    started_at: datetime
    cutoff: datetime | None
    ended_at: datetime | None
    reached: UUID | None
    planned: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a quarantine would come to now. Turns that the series due would plan are not among the `counts`."""

    counts: Mapping[str, int]
    series_due: int
    at: datetime


def quarantines(database: Database, limit: int = 100) -> list[Quarantine]:
    """The quarantines on record, newest first."""
    return [_quarantine(row) for row in database.fetch(LIST, limit=limit)]


def clock(database: Database) -> datetime:
    """The ledger's clock, UTC."""
    now: datetime = database.fetch(CLOCK)[0][0]
    return now.astimezone(UTC)


def begin(database: Database, *, since: datetime, pause_id: UUID, letters: bool, said: Mapping[str, str]) -> Quarantine:
    """Put a new one on record. Raises `Refused` if somebody else has begun one meanwhile: only one can be unfinished."""
    given = {**said, "host": socket.gethostname(), "epochs_from": EPOCHS_FROM}
    if not database.fetch(BEGIN, id=str(uuid7()), since=since, pause=str(pause_id), letters=letters, **given):
        raise Refused("somebody else has begun a quarantine just now\nRun this again: it goes on with that one.")
    return quarantines(database, 1)[0]


def give_up(database: Database, found: Quarantine) -> None:
    """End one that was under way when the backup was taken."""
    database.fetch(GIVE_UP, id=str(found.id))


def undecided_series(database: Database, limit: int = 10) -> tuple[list[str], list[str]]:
    """Ids of series that have turns behind them that are not decided: those that somebody holds, and those that have a fault."""
    rows = database.fetch(SERIES_LEFT, limit=limit)
    return [id_ for id_, faulty in rows if not faulty], [id_ for id_, faulty in rows if faulty]


def note_planned(database: Database, found: Quarantine, count: int) -> None:
    """Count series that were planned."""
    database.fetch(NOTE_PLANNED, id=str(found.id), count=count)


def cut(database: Database, found: Quarantine) -> None:
    """From now on nothing that is new belongs to it."""
    database.fetch(CUT, id=str(found.id))


def step(
    database: Database, found: Quarantine, *, window: float, formats: Mapping[str, int], size: int = PAGE_SIZE
) -> bool:
    """Judge and move the next page of reminders; whether there may be more. Waits for applications that hold one of them."""
    with database.transaction() as connection:
        run = _begun(connection, database.schema, _BEGIN)
        standing = run(LOCK, id=str(found.id))
        if not standing:
            return False
        after = standing[0][0] or _BEFORE_ALL
        ((last, ids),) = run(PAGE, after=after, size=size, base=found.base, cutoff=found.cutoff)
        if last is None:
            return False
        if not ids:
            run(SKIP, id=str(found.id), reached=last)
            return True
        run(LOCK_DUE, ids=ids)
        run(LOCK_REMINDERS, ids=ids)
        given = _given(found.since, found.cutoff, window, letters=found.letters)
        run(
            MOVE, **given, ids=ids, formats=json.dumps(dict(formats)), base=found.base, reached=last, quarantine=str(found.id)
        )  # fmt: skip
        # Crash here: nothing of this page is committed; after it the page is done, and the next run goes on behind it.
    return True


def end(database: Database, found: Quarantine) -> None:
    """Put on record that all is done."""
    database.fetch(END, id=str(found.id))


def count(database: Database, since: datetime, *, window: float, letters: bool, size: int = PAGE_SIZE) -> Counted:
    """What a quarantine begun now would do, on one snapshot. Nothing is locked or changed."""
    totals = dict.fromkeys(VERDICTS, 0)
    with database.transaction() as connection:
        run = _begun(connection, database.schema, _BEGIN_COUNTING)
        ((now,),) = run(CLOCK)
        after: str | None = _BEFORE_ALL
        while True:
            ((after, ids),) = run(PAGE, after=after, size=size, base=2**31 - 1, cutoff=now)
            if after is None:
                break
            for verdict, number in run(COUNT, ids=ids, **_given(since, now, window, letters=letters)):
                totals[verdict] += number
        ((series,),) = run(SERIES_DUE)
    return Counted(totals, series, now.astimezone(UTC))


def decided_about(found: Quarantine | None, since: datetime) -> str:
    """Whether the newest quarantine is the one for a restore to `since`: `unfinished`, `done`, or `none` of it.

    Raises `Refused` for an unfinished one of a later time.
    """
    if found is None:
        return "none"
    if found.ended_at is not None:
        return "done" if found.cutoff is not None and found.since <= since <= found.cutoff else "none"
    if since > found.started_at:
        return "given_up"
    if since < found.since:
        raise Refused(
            f"a quarantine since {found.since.isoformat()} is unfinished: run it to its end with that --since first, "
            "then once more with the earlier one"
        )
    return "unfinished"


def _begun(connection: DriverConnection, schema: str, settings: str) -> partial[list[Row]]:
    with connection.cursor() as cursor:
        cursor.execute(settings)
    return partial(fetch, connection, schema)


def _given(since: datetime, cutoff: datetime | None, window: float, *, letters: bool) -> dict[str, Any]:
    return {"since": since, "cutoff": cutoff, "window": window, "letters": letters, "look_ups": []}


def _quarantine(row: Row) -> Quarantine:
    (
        id_,
        since,
        base,
        pause_id,
        letters,
        actor,
        host,
        reason,
        started_at,
        cutoff,
        ended_at,
        reached,
        planned,
        *counts,
    ) = row
    began, cut_at, over = (each and each.astimezone(UTC) for each in (started_at, cutoff, ended_at))
    return Quarantine(
        UUID(id_), since.astimezone(UTC), base, UUID(pause_id), letters, actor, host, reason, began, cut_at, over,
        reached and UUID(reached), planned, dict(zip(VERDICTS, counts, strict=True)),
    )  # fmt: skip

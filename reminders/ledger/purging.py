"""Purging what has long ended: one pass over the reminders marks, and a later pass deletes what an earlier one marked.

A mark is a row of `keys_seen`. A reminder is deleted only when every transaction has ended that was open when its mark
was committed. So whoever can still come to insert its identity, even after waiting for the delete, sees the mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg2.errors import QueryCanceled

from reminders.domain.identity import uuid7
from reminders.ledger.database import Database
from reminders.ledger.retention_policies import bounded
from reminders.ledger.statement import Statement

# Each statement of a step must see what was committed before the locks of the one before it were had, whatever the
# database's default is. What a crash of the server takes back of a step it takes back of all later ones as well, and they are
# done again: its locks need not be held until the disk has it.
_BEGIN = """SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"""

# The transactions that are open now in this database, other than ours and those of autovacuum, which schedules nothing.
# Unlike `pg_stat_activity`, `pg_locks` shows them to every role, and each has the lock on its own virtual id from before its
# first snapshot to its end.
_OPEN = """(SELECT COALESCE(array_agg(l.virtualtransaction), '{}') FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
           WHERE l.locktype = 'virtualxid' AND l.pid <> pg_backend_pid() AND a.datname = current_database()
             AND a.backend_type IS DISTINCT FROM 'autovacuum worker')"""

BEFORE_ALL = str(UUID(int=0))

# What ended before this has been over for as long as its tenant has things kept; `age` is how long others have.
_CUTOFF = f"""COALESCE((SELECT :cutoff + make_interval(secs => :age - {bounded("p.keep")}) FROM {{s}}.retention_policies p
                             WHERE p.tenant_id = r.tenant_id AND p.about = 'reminders'), :cutoff)"""

# Of what is over: no person has yet to decide about it, and none has lately.
# What its series has withdrawn may be wanted again, until its time is over.
LONG_ENDED = f"""r.status <> 'live' AND r.finished_at < {_CUTOFF} AND (r.withdrawn_at IS NULL OR r.due_at < {_CUTOFF})
      AND NOT EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.id = r.id)
      AND NOT EXISTS (SELECT 1 FROM {{s}}.dead_letters l
                      WHERE l.reminder_id = r.id AND (l.state = 'open' OR l.closed_at >= {_CUTOFF}))"""

# `marked` if the mark tells how it stands; `deletable` if, besides, nothing is open that was open before the mark: of passes
# only settled ones are ever removed.
STANDING = """SELECT r.*, COALESCE(m.same, false) AS marked, COALESCE(m.same AND (p.id IS NULL OR p.settled_at IS NOT NULL), false) AS deletable
    FROM {s}.reminders r
    LEFT JOIN {s}.keys_seen k ON k.identity_key = r.identity_key
    LEFT JOIN {s}.purges p ON p.id = k.purge_id
    CROSS JOIN LATERAL (
        SELECT (k.reminder_id, k.request_hash, k.delivery_key, k.version, k.due_at, k.status, k.finished_at)
             = (r.id, r.request_hash, r.delivery_key, r.version, r.due_at, r.status, r.finished_at) AS same) m"""


CUTOFF = Statement(
    "purge_cutoff",
    "SELECT COALESCE(:now, clock_timestamp()) - make_interval(secs => :age)",
    {"now": "timestamptz", "age": "float8"},
)

# A pass that somebody began with another age and did not finish ends here; whoever still works on it finds that out.
END_OTHERS = Statement(
    "purge_end_others",
    "UPDATE {s}.purges SET ended_at = clock_timestamp() WHERE ended_at IS NULL AND older_than <> :older_than RETURNING 1",
    {"older_than": "float8"},
)

JOIN = Statement(
    "purge_join",
    """
WITH joined AS MATERIALIZED (
    SELECT id, cutoff FROM {s}.purges WHERE settled_at IS NULL AND ended_at IS NULL AND older_than = :older_than
    ORDER BY started_at DESC LIMIT 1
), begun AS (
    INSERT INTO {s}.purges (id, older_than, cutoff)
    SELECT :id, :older_than, :cutoff WHERE NOT EXISTS (SELECT 1 FROM joined)
    RETURNING id, cutoff
)
SELECT id::text, cutoff FROM joined UNION ALL SELECT id::text, cutoff FROM begun
""",
    {"id": "uuid", "older_than": "float8", "cutoff": "timestamptz"},
)

# In a statement of its own, so that its marks are committed for everybody by the time it looks at who is there.
NOTE_OPEN = Statement(
    "purge_note_open",
    f"UPDATE {{s}}.purges SET waits_for = {_OPEN} WHERE settled_at IS NULL AND ended_at IS NOT NULL AND waits_for IS NULL RETURNING 1",
    {},
)

SETTLE = Statement(
    "purge_settle",
    f"""
WITH open AS MATERIALIZED (SELECT {_OPEN} AS ids), settled AS (
    UPDATE {{s}}.purges SET settled_at = clock_timestamp()
    WHERE settled_at IS NULL AND waits_for IS NOT NULL AND NOT waits_for && (SELECT ids FROM open)
    RETURNING id
)
SELECT count(*) FROM {{s}}.purges
WHERE settled_at IS NULL AND waits_for IS NOT NULL AND id NOT IN (SELECT id FROM settled)
""",
    {},
)

# The latest cutoff that any tenant has.
LATEST_CUTOFF = f"""GREATEST({{1}}, {{1}} + make_interval(secs => {{0}} - (SELECT {bounded("min(keep)")} FROM {{{{s}}}}.retention_policies WHERE about = 'reminders')))"""

# Two runs of one pass take turns.
LOCK = Statement(
    "purge_lock", "SELECT 1 FROM {s}.purges WHERE id = :purge AND ended_at IS NULL FOR NO KEY UPDATE", {"purge": "uuid"}
)

# Of each statement after it, in milliseconds; 0 is without end.
BOUND = Statement("purge_bound", "SELECT set_config('statement_timeout', :longest, true)", {"longest": "text"})


def page(after: str = ":after", newest: str = ":newest") -> str:
    """A CTE `page`: the next reminders behind an id, and whether each was created before an instant.

    Ids are in the order of creation, but for the clocks of those who made them: from where a whole page was created after
    every tenant's cutoff, nothing has ended before it.
    """
    return f"""page AS MATERIALIZED (
    SELECT r.id, r.created_at < {newest} AS old FROM {{s}}.reminders r
    WHERE r.id > {after}
    ORDER BY r.id LIMIT :size
)"""


# What it has locked, up to where it has looked and whether there is more it leaves to the statement after it, in settings of
# this transaction: with a look of ours in between, others would wait for us too.
HOLD = Statement(
    "purge_hold",
    f"""
WITH pass AS MATERIALIZED (
    SELECT COALESCE(reached, '{BEFORE_ALL}') AS reached, {LATEST_CUTOFF.format("older_than", "cutoff")} AS newest
    FROM {{s}}.purges WHERE id = :purge AND ended_at IS NULL
), {page("(SELECT reached FROM pass)", "(SELECT newest FROM pass)")}, held AS MATERIALIZED (
    SELECT r.id FROM {{s}}.reminders r
    WHERE r.id = ANY(ARRAY(SELECT id FROM page WHERE old)) AND {LONG_ENDED}
    ORDER BY r.id LIMIT :room
    FOR UPDATE SKIP LOCKED
), looked AS (
    SELECT ARRAY(SELECT id FROM held ORDER BY id) AS held, (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS reached,
           (SELECT count(*) = :size AND bool_or(old) FROM page) AS more
)
SELECT set_config('reminders.purge_held', held::text, true),
       set_config('reminders.purge_reached', COALESCE(CASE WHEN cardinality(held) = :room THEN held[:room] ELSE reached END::text, ''), true),
       set_config('reminders.purge_more', COALESCE(cardinality(held) = :room OR more, false)::text, true)
FROM looked
""",
    {"purge": "uuid", "cutoff": "timestamptz", "age": "float8", "size": "integer", "room": "integer"},
)

_HELD = "ANY(current_setting('reminders.purge_held')::uuid[])"
_MORE = "current_setting('reminders.purge_more')::boolean"

ACT = Statement(
    "purge_act",
    f"""
WITH ended AS MATERIALIZED (
    {STANDING}
    WHERE r.id = {_HELD} AND {LONG_ENDED}
), marked AS (
    INSERT INTO {{s}}.keys_seen AS k
        (identity_key, request_hash, reminder_id, delivery_key, version, due_at, status, finished_at, purge_id)
    SELECT identity_key, request_hash, id, delivery_key, version, due_at, status, finished_at, :purge
    FROM ended WHERE NOT marked
    ON CONFLICT (identity_key) DO UPDATE
    SET request_hash = EXCLUDED.request_hash, delivery_key = EXCLUDED.delivery_key, version = EXCLUDED.version,
        due_at = EXCLUDED.due_at, status = EXCLUDED.status, finished_at = EXCLUDED.finished_at, purge_id = EXCLUDED.purge_id
    WHERE k.purged_at IS NULL AND k.reminder_id = EXCLUDED.reminder_id
    RETURNING 1
), keys AS MATERIALIZED (
    SELECT n.delivery_key FROM {{s}}.notification_deliveries n
    WHERE n.reminder_id = ANY(ARRAY(SELECT id FROM ended WHERE deletable))
), attempts AS (
    DELETE FROM {{s}}.delivery_attempts WHERE delivery_key = ANY(ARRAY(SELECT delivery_key FROM keys))
), deliveries AS (
    DELETE FROM {{s}}.notification_deliveries WHERE delivery_key = ANY(ARRAY(SELECT delivery_key FROM keys))
), letters AS (
    DELETE FROM {{s}}.dead_letters WHERE reminder_id = ANY(ARRAY(SELECT id FROM ended WHERE deletable))
), shadows AS (
    DELETE FROM {{s}}.shadow_deliveries WHERE reminder_id = ANY(ARRAY(SELECT id FROM ended WHERE deletable))
), noted AS (
    UPDATE {{s}}.keys_seen SET purged_at = clock_timestamp()
    WHERE identity_key = ANY(ARRAY(SELECT identity_key FROM ended WHERE deletable))
), gone AS (
    DELETE FROM {{s}}.reminders WHERE id = ANY(ARRAY(SELECT id FROM ended WHERE deletable)) RETURNING 1
), counted AS MATERIALIZED (
    SELECT (SELECT count(*) FROM marked) AS marked, (SELECT count(*) FROM gone) AS purged
)
UPDATE {{s}}.purges p
SET reached = COALESCE(NULLIF(current_setting('reminders.purge_reached'), '')::uuid, p.reached), marked = p.marked + counted.marked, purged = p.purged + counted.purged,
    ended_at = CASE WHEN NOT {_MORE} THEN clock_timestamp() END
FROM counted WHERE p.id = :purge AND p.ended_at IS NULL
RETURNING counted.marked, counted.purged, {_MORE}
""",
    {"cutoff": "timestamptz", "age": "float8", "purge": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the reminders, which several runs and processes may carry out between them."""

    id: UUID
    cutoff: datetime
    older_than: float
    """Seconds."""


class StepTooSlow(Exception):
    """A step took longer than it was given, and nothing of it is done."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one short transaction did; `more` while the pass goes on."""

    marked: int
    purged: int
    more: bool


def cutoff_of(database: Database, older_than: float, now: datetime | None) -> datetime:
    """What ended before this has been over for `older_than` seconds, by the ledger's clock."""
    cutoff: datetime = database.fetch(CUTOFF, now=now, age=older_than)[0][0]
    return cutoff


def join_pass(database: Database, older_than: float, now: datetime | None) -> Pass:
    """The pass of this age that is under way, or a new one. One of another age ends."""
    database.fetch(END_OTHERS, older_than=older_than)
    cutoff = cutoff_of(database, older_than, now)
    (row,) = database.fetch(JOIN, id=str(uuid7()), older_than=older_than, cutoff=cutoff)
    return Pass(UUID(row[0]), row[1], older_than)


def settle(database: Database) -> int:
    """Note of ended passes whether all has ended that was open then; returns how many must wait for that."""
    database.fetch(NOTE_OPEN)
    waiting: int = database.fetch(SETTLE)[0][0]
    return waiting


def step(database: Database, current: Pass, size: int, room: int, longest_ms: int | None = None) -> Step:
    """Look at the next `size` reminders of the pass: mark those that have long ended, delete those marked long enough.

    At most `room` of them; the next step goes on behind the last. Raises `StepTooSlow` where locking them, or what is done
    with them then, takes longer than `longest_ms`.
    """
    try:
        return _step(database, current, size, room, longest_ms)
    except QueryCanceled as error:
        if longest_ms is None:
            raise
        raise StepTooSlow from error


def _step(database: Database, current: Pass, size: int, room: int, longest_ms: int | None) -> Step:
    given = {"purge": str(current.id), "cutoff": current.cutoff, "age": current.older_than, "size": size, "room": room}
    bound = (BOUND, {"longest": str(longest_ms or 0)})
    found = database.fetch_together(_BEGIN, (LOCK, given), bound, (HOLD, given), (ACT, given))
    # Crash here: all of this step is committed, or nothing, and the next run begins with it.
    return Step(*found[0]) if found else Step(0, 0, more=False)

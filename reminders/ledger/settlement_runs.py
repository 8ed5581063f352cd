"""Runs of reconciliation: who holds one, where it stands, and that pages of one source take turns."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.identity import uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, LOOPS_ONLY, Row
from reminders.ledger.statement import Statement

FIRST_PAGE = 1
_LONGEST_TURN = "30s"
_AS_USUAL = "; ".join(
    f"SET LOCAL {name} TO DEFAULT"
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")
)

SOURCE = Statement(
    "settlement_source",
    "INSERT INTO {s}.settlement_sources (name) VALUES (:source) ON CONFLICT (name) DO NOTHING RETURNING 1",
    {"source": "text"},
)

TURN = Statement(
    "settlement_turn",
    "SELECT 1 FROM {s}.settlement_sources WHERE name = :source FOR NO KEY UPDATE",
    {"source": "text"},
)

ALIVE = Statement(
    "reconciliation_alive",
    """
SELECT id::text, fence, step, next_page, pages, only_page, reminders, settings_hash, started_at, lease_until,
       lease_until > clock_timestamp()
FROM {s}.reconciliation_runs WHERE source = :source AND subject = :subject AND status = 'running'
""",
    {"source": "text", "subject": "text"},
)

BEGIN = Statement(
    "reconciliation_begin",
    """
INSERT INTO {s}.reconciliation_runs (id, source, kind, subject, file_name, pages, only_page, reminders, settings_hash,
                                     actor, host, step, next_page, lease, lease_until)
VALUES (:id, :source, :kind, :subject, :file, :pages, :only, :reminders, :hash, :actor, :host, :step, :first,
        :lease, clock_timestamp() + :lease)
RETURNING 1
""",
    {
        "id": "uuid", "source": "text", "kind": "text", "subject": "text", "file": "text", "pages": "integer",
        "only": "integer", "reminders": "boolean", "hash": "text", "actor": "text", "host": "text", "step": "text",
        "first": "integer", "lease": "interval",
    },
)  # fmt: skip

TAKE_OVER = Statement(
    "reconciliation_take_over",
    """
UPDATE {s}.reconciliation_runs
SET fence = fence + 1, lease = :lease, lease_until = clock_timestamp() + :lease, heard_at = clock_timestamp(), error = NULL
WHERE id = :id RETURNING fence
""",
    {"id": "uuid", "lease": "interval"},
)

GIVE_UP = Statement(
    "reconciliation_give_up",
    """
WITH ended AS (
    UPDATE {s}.reconciliation_runs SET status = 'given_up', finished_at = clock_timestamp(), error = :why WHERE id = :id
)
DELETE FROM {s}.reconciliation_run_groups WHERE run_id = :id RETURNING 1
""",
    {"id": "uuid", "why": "text"},
)

# Renews the lease with the page's own transaction: what is rolled back was not heard of.
CONTINUE_IF_OURS = Statement(
    "reconciliation_continue",
    """
UPDATE {s}.reconciliation_runs
SET lease_until = clock_timestamp() + lease, heard_at = clock_timestamp()
WHERE id = :id AND fence = :fence AND status = 'running'
RETURNING step, next_page, position, only_page, reminders, clock_timestamp()
""",
    {"id": "uuid", "fence": "integer"},
)

STANDS = Statement(
    "reconciliation_stands",
    """
SELECT source, step, next_page, position, only_page, reminders, settings_hash FROM {s}.reconciliation_runs
WHERE id = :id AND fence = :fence AND status = 'running'
""",
    {"id": "uuid", "fence": "integer"},
)

MOVE = Statement(
    "reconciliation_move",
    "UPDATE {s}.reconciliation_runs SET step = :step, next_page = :next, position = :position WHERE id = :id RETURNING 1",
    {"id": "uuid", "step": "text", "next": "integer", "position": "text"},
)

COUNT = Statement(
    "reconciliation_count",
    """
UPDATE {s}.reconciliation_runs
SET lines_new = lines_new + :new, lines_changed = lines_changed + :changed, lines_unchanged = lines_unchanged + :unchanged,
    lines_rejected = lines_rejected + :rejected
WHERE id = :id RETURNING 1
""",
    {"id": "uuid", "new": "integer", "changed": "integer", "unchanged": "integer", "rejected": "integer"},
)

FINISH = Statement(
    "reconciliation_finish",
    """
WITH ended AS (
    UPDATE {s}.reconciliation_runs SET status = 'finished', finished_at = clock_timestamp() WHERE id = :id
)
DELETE FROM {s}.reconciliation_run_groups WHERE run_id = :id RETURNING 1
""",
    {"id": "uuid"},
)

LET_GO_IF_OURS = Statement(
    "reconciliation_let_go",
    """
UPDATE {s}.reconciliation_runs SET lease_until = clock_timestamp(), error = :why
WHERE id = :id AND fence = :fence AND status = 'running' RETURNING 1
""",
    {"id": "uuid", "fence": "integer", "why": "text"},
)

# Of the groups this run has touched the next ones; not those of which another run that is alive still reads lines, since
# that one decides over them when it has read all: nobody must be told what half of a file says.
NEXT_GROUPS = Statement(
    "reconciliation_next_groups",
    """
SELECT g.group_key FROM {s}.reconciliation_run_groups g
WHERE g.run_id = :id AND g.group_key > :after
  AND NOT EXISTS (
      SELECT 1 FROM {s}.reconciliation_runs o
      JOIN {s}.reconciliation_run_groups t ON t.run_id = o.id AND t.group_key = g.group_key
      WHERE o.source = :source AND o.status = 'running' AND o.step = 'lines' AND o.id <> :id AND o.lease_until > clock_timestamp())
ORDER BY g.group_key LIMIT :limit
""",
    {"id": "uuid", "source": "text", "after": "text", "limit": "integer"},
)

TOUCH_MISSING = Statement(
    "reconciliation_touch_missing",
    """
INSERT INTO {s}.reconciliation_run_groups (run_id, group_key)
SELECT :id, 'o:' || d.order_reference FROM {s}.reconciliation_decisions d
WHERE d.source = :source AND d.name = 'missing' AND d.withdrawn_at IS NULL
ON CONFLICT DO NOTHING RETURNING 1
""",
    {"id": "uuid", "source": "text"},
)

OTHERS_READ = Statement(
    "reconciliation_others_read",
    """
SELECT 1 FROM {s}.reconciliation_runs
WHERE source = :source AND status = 'running' AND kind = 'file' AND step IN ('lines', 'decide') AND id <> :id
  AND lease_until > clock_timestamp()
LIMIT 1
""",
    {"id": "uuid", "source": "text"},
)


@dataclass(frozen=True, slots=True)
class Alive:
    """A run of the same subject that has not ended. UTC. `held` while its lease has not lapsed."""

    id: UUID
    fence: int
    step: str
    next_page: int
    pages: int
    only_page: int | None
    reminders: bool
    settings_hash: str
    started_at: datetime
    lease_until: datetime
    held: bool


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a run stands. `now` is Postgres's clock, UTC."""

    step: str
    next_page: int
    position: str
    only_page: int | None
    reminders: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a run begins with."""

    source: str
    kind: str
    subject: str
    file: str | None
    pages: int
    only_page: int | None
    reminders: bool
    settings_hash: str
    actor: str
    lease: timedelta
    step: str


def take_turn(connection: DriverConnection, schema: str, source: str) -> None:
    """Wait until no other page of the source is under way, and keep others waiting until this transaction ends.

    Must be the transaction's first statement: what it reads afterwards is what those others have committed.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{_LONGEST_TURN}'")
    if not fetch(connection, schema, TURN, source=source):
        fetch(connection, schema, SOURCE, source=source)
        fetch(connection, schema, TURN, source=source)


def by_index(connection: DriverConnection) -> None:
    """From here on plan for few rows of large tables, whatever is estimated."""
    with connection.cursor() as cursor:
        cursor.execute(INDEXES_ONLY + LOOPS_ONLY)


def as_usual(connection: DriverConnection) -> None:
    """Take `by_index` back: what comes next is the application's."""
    with connection.cursor() as cursor:
        cursor.execute(_AS_USUAL)


def alive(connection: DriverConnection, schema: str, source: str, subject: str) -> Alive | None:
    """The run of this subject that has not ended."""
    rows = fetch(connection, schema, ALIVE, source=source, subject=subject)
    if not rows:
        return None
    run_id, fence, step, page, pages, only, reminders, hashed, started_at, lease_until, held = rows[0]
    return Alive(
        UUID(run_id), fence, step, page, pages, only, reminders, hashed, started_at.astimezone(UTC),
        lease_until.astimezone(UTC), held,
    )  # fmt: skip


def begin(connection: DriverConnection, schema: str, new: NewRun) -> tuple[UUID, int]:
    """Make a run; its id and fence. There must be none of its subject that has not ended."""
    run_id = uuid7()
    fetch(
        connection, schema, BEGIN, id=str(run_id), source=new.source, kind=new.kind, subject=new.subject, file=new.file,
        pages=new.pages, only=new.only_page, reminders=new.reminders, hash=new.settings_hash, actor=new.actor,
        host=socket.gethostname(), step=new.step, first=new.only_page or FIRST_PAGE, lease=new.lease,
    )  # fmt: skip
    return run_id, 1


def take_over(connection: DriverConnection, schema: str, run_id: UUID, lease: timedelta) -> int:
    """Hold a run that nobody holds any more; its new fence."""
    ((fence,),) = fetch(connection, schema, TAKE_OVER, id=str(run_id), lease=lease)
    return int(fence)


def give_up(connection: DriverConnection, schema: str, run_id: UUID, why: str) -> None:
    """End a run that nobody goes on with."""
    fetch(connection, schema, GIVE_UP, id=str(run_id), why=why)


def continue_if_ours(connection: DriverConnection, schema: str, run_id: UUID, fence: int) -> Stand | None:
    """Where the run stands, if we still hold it; then nobody can take it over before this transaction ends."""
    return _stand(fetch(connection, schema, CONTINUE_IF_OURS, id=str(run_id), fence=fence))


def stands(connection: DriverConnection, schema: str, run_id: UUID, fence: int) -> Row | None:
    """Source, step, next page, position, only page, reminders and settings' hash of a run that is held under this fence."""
    rows = fetch(connection, schema, STANDS, id=str(run_id), fence=fence)
    return rows[0] if rows else None


def move(connection: DriverConnection, schema: str, run_id: UUID, stand: Stand) -> None:
    """Write where the run stands now."""
    fetch(connection, schema, MOVE, id=str(run_id), step=stand.step, next=stand.next_page, position=stand.position)


def count(connection: DriverConnection, schema: str, run_id: UUID, **numbers: int) -> None:
    """Add to the run's numbers of lines: `new`, `changed`, `unchanged`, `rejected`."""
    fetch(connection, schema, COUNT, id=str(run_id), **numbers)


def finish(connection: DriverConnection, schema: str, run_id: UUID) -> None:
    """End a run that has done all its steps."""
    fetch(connection, schema, FINISH, id=str(run_id))


def let_go_if_ours(connection: DriverConnection, schema: str, run_id: UUID, fence: int, why: str | None) -> None:
    """Let whoever comes next take the run over at once."""
    fetch(connection, schema, LET_GO_IF_OURS, id=str(run_id), fence=fence, why=why)


def next_groups(
    connection: DriverConnection, schema: str, run_id: UUID, source: str, after: str, limit: int
) -> list[str]:
    """The next groups to decide over."""
    rows = fetch(connection, schema, NEXT_GROUPS, id=str(run_id), source=source, after=after, limit=limit)
    return [key for (key,) in rows]


def touch_missing(connection: DriverConnection, schema: str, run_id: UUID, source: str) -> None:
    """Have the run look again at every order that is said to be missing: it may be known otherwise by now."""
    fetch(connection, schema, TOUCH_MISSING, id=str(run_id), source=source)


def others_read(connection: DriverConnection, schema: str, run_id: UUID, source: str) -> bool:
    """Whether another run that is alive will look for missing orders when it has read its file."""
    return bool(fetch(connection, schema, OTHERS_READ, id=str(run_id), source=source))


def _stand(rows: list[Any]) -> Stand | None:
    if not rows:
        return None
    step, page, position, only, reminders, now = rows[0]
    return Stand(step, page, position, only, reminders, now.astimezone(UTC))

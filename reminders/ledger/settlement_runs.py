"""Runs of reconciliation: who holds one, where it stands, and that pages of one source take turns."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.identity import uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, LOOPS_ONLY
from reminders.ledger.statement import Statement

FIRST_PAGE = 1
_LONGEST_TURN = "30s"
_AS_USUAL = "; ".join(
    f"SET LOCAL {name} TO DEFAULT"
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_material")
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
SELECT id::text, fence, step, next_page, pages, only_page, reminders, config_hash, started_at, lease_until,
       lease_until > clock_timestamp()
FROM {s}.reconciliation_runs WHERE source = :source AND subject = :subject AND status = 'running'
""",
    {"source": "text", "subject": "text"},
)

BEGIN = Statement(
    "reconciliation_begin",
    """
INSERT INTO {s}.reconciliation_runs (id, source, kind, subject, file_name, pages, only_page, reminders, config_hash,
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
RETURNING kind, step, next_page, pages, position, only_page, reminders, clock_timestamp()
""",
    {"id": "uuid", "fence": "integer"},
)

SOURCE_OF = Statement(
    "reconciliation_source_of", "SELECT source FROM {s}.reconciliation_runs WHERE id = :id", {"id": "uuid"}
)

CLOCK = Statement("reconciliation_clock", "SELECT clock_timestamp()", {})

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

# True again when its reply was lost and it is asked for once more.
FINISH_IF_OURS = Statement(
    "reconciliation_finish",
    """
WITH ours AS (
    SELECT id, status FROM {s}.reconciliation_runs WHERE id = :id AND fence = :fence AND step = 'done' AND status <> 'given_up'
), ended AS (
    UPDATE {s}.reconciliation_runs r SET status = 'finished', finished_at = clock_timestamp()
    FROM ours o WHERE r.id = o.id AND o.status = 'running'
), forgotten AS (
    DELETE FROM {s}.reconciliation_run_groups WHERE run_id = (SELECT id FROM ours)
)
SELECT 1 FROM ours
""",
    {"id": "uuid", "fence": "integer"},
)

LET_GO_IF_OURS = Statement(
    "reconciliation_let_go",
    """
UPDATE {s}.reconciliation_runs SET lease_until = clock_timestamp(), error = :why
WHERE id = :id AND fence = :fence AND status = 'running' RETURNING 1
""",
    {"id": "uuid", "fence": "integer", "why": "text"},
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
    config_hash: str
    started_at: datetime
    lease_until: datetime
    held: bool


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a run stands. `now` is Postgres's clock, UTC."""

    kind: str
    step: str
    next_page: int
    pages: int
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
    config_hash: str
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
        cursor.execute(f"{INDEXES_ONLY}{LOOPS_ONLY}SET LOCAL enable_material = off")


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
        pages=new.pages, only=new.only_page, reminders=new.reminders, hash=new.config_hash, actor=new.actor,
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


def source_of(connection: DriverConnection, schema: str, run_id: UUID) -> str | None:
    """The source of a run; None if there is no such run."""
    rows = fetch(connection, schema, SOURCE_OF, id=str(run_id))
    return rows[0][0] if rows else None


def now(connection: DriverConnection, schema: str) -> datetime:
    """Postgres's clock, UTC."""
    ((at,),) = fetch(connection, schema, CLOCK)
    return cast(datetime, at).astimezone(UTC)


def move(connection: DriverConnection, schema: str, run_id: UUID, stand: Stand) -> None:
    """Write where the run stands now."""
    fetch(connection, schema, MOVE, id=str(run_id), step=stand.step, next=stand.next_page, position=stand.position)


def count(connection: DriverConnection, schema: str, run_id: UUID, **numbers: int) -> None:
    """Add to the run's numbers of lines: `new`, `changed`, `unchanged`, `rejected`."""
    fetch(connection, schema, COUNT, id=str(run_id), **numbers)


def finish_if_ours(connection: DriverConnection, schema: str, run_id: UUID, fence: int) -> bool:
    """End a run that has done all its steps; whether that was ours to do."""
    return bool(fetch(connection, schema, FINISH_IF_OURS, id=str(run_id), fence=fence))


def let_go_if_ours(connection: DriverConnection, schema: str, run_id: UUID, fence: int, why: str | None) -> None:
    """Let whoever comes next take the run over at once."""
    fetch(connection, schema, LET_GO_IF_OURS, id=str(run_id), fence=fence, why=why)


def _stand(rows: list[Any]) -> Stand | None:
    if not rows:
        return None
    kind, step, page, pages, position, only, reminders, at = rows[0]
    return Stand(kind, step, page, pages, position, only, reminders, at.astimezone(UTC))

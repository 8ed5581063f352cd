"""Settlement files kept in the ledger, in pages: another machine's disk cannot be read, and a task takes a page at a time.

Every move is guarded by how far the file has come, so that of two that do the same one does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal
from uuid import UUID

import psycopg2

from reminders.domain.errors import NotFound
from reminders.domain.identity import uuid7
from reminders.ledger.database import Database
from reminders.ledger.notices import AS_NEWS, tell
from reminders.ledger.noticing import REFUSED
from reminders.ledger.statement import Statement

FileStatus = Literal["receiving", "ready", "running", "done", "refused"]

# Of a night there is one file of a source, whoever comes first.
ADD = Statement(
    "settlement_file_add",
    """
INSERT INTO {s}.reconciliation_files (id, source, name, url, night, actor, asked_because)
VALUES (:id, :source, :name, :url, :night, :actor, :asked_because)
ON CONFLICT (source, night) WHERE night IS NOT NULL DO NOTHING
RETURNING id::text
""",
    {"id": "uuid", "source": "text", "name": "text", "url": "text", "night": "date", "actor": "text", "asked_because": "text"},
)  # fmt: skip

_COLUMNS = """id::text, source, name, status, size, total, sha256, header, pages, records, next_line, tail, etag, url, night, tries, actor,
       asked_because, reason, run_id::text, created_at, touched_at"""

_RUN = 19
"""Where `run_id` stands among them."""

READ = Statement(
    "settlement_file_read", f"SELECT {_COLUMNS} FROM {{s}}.reconciliation_files WHERE id = :id", {"id": "uuid"}
)

LIST = Statement(
    "settlement_file_list",
    f"SELECT {_COLUMNS} FROM {{s}}.reconciliation_files ORDER BY created_at DESC, id DESC LIMIT :limit",
    {"limit": "integer"},
)

APPEND = Statement(
    "settlement_file_append",
    """
WITH moved AS (
    UPDATE {s}.reconciliation_files f
    SET size = :size, total = COALESCE(:total, total), etag = COALESCE(:etag, etag), header = COALESCE(header, :header),
        tail = :tail, next_line = :next_line, pages = f.pages + cardinality(:numbers),
        records = f.records + (SELECT COALESCE(sum(n), 0) FROM unnest(:records) n), tries = 0, touched_at = clock_timestamp()
    WHERE id = :id AND status = 'receiving' AND size = :at
    RETURNING id
), stored AS (
    INSERT INTO {s}.reconciliation_file_pages (file_id, number, first_line, records, content)
    SELECT moved.id, p.number, p.first_line, p.records, p.content
    FROM moved CROSS JOIN unnest(:numbers, :first_lines, :records, :contents) AS p (number, first_line, records, content)
)
SELECT 1 FROM moved
""",
    {
        "id": "uuid", "at": "bigint", "size": "bigint", "total": "bigint", "etag": "text", "header": "bytea", "tail": "bytea",
        "next_line": "bigint", "numbers": "integer[]", "first_lines": "bigint[]", "records": "integer[]", "contents": "bytea[]",
    },
)  # fmt: skip

FINISH = Statement(
    "settlement_file_finish",
    """
UPDATE {s}.reconciliation_files
SET status = 'ready', sha256 = :digest, url = NULL, tail = NULL, total = size, touched_at = clock_timestamp()
WHERE id = :id AND status = 'receiving' AND size = :at
RETURNING 1
""",
    {"id": "uuid", "at": "bigint", "digest": "bytea"},
)

NOTE_TRY = Statement(
    "settlement_file_note_try",
    """
UPDATE {s}.reconciliation_files SET tries = tries + 1, touched_at = clock_timestamp()
WHERE id = :id AND status = 'receiving' AND size = :at
RETURNING tries
""",
    {"id": "uuid", "at": "bigint"},
)

REFUSE = Statement(
    "settlement_file_refuse",
    f"""
WITH refused AS (
    UPDATE {{s}}.reconciliation_files
    SET status = 'refused', reason = :reason, url = NULL, tail = NULL, touched_at = clock_timestamp()
    WHERE id = :id AND status IN ('receiving', 'ready')
    RETURNING id
), gone AS (
    DELETE FROM {{s}}.reconciliation_file_pages WHERE file_id = (SELECT id FROM refused)
), {REFUSED}
SELECT (SELECT {AS_NEWS} FROM notice) FROM refused
""",
    {"id": "uuid", "reason": "text", "told": "boolean"},
)

PAGES = Statement(
    "settlement_file_pages",
    """
SELECT number, first_line, records, content FROM {s}.reconciliation_file_pages
WHERE file_id = :id AND number > :after ORDER BY number LIMIT :limit
""",
    {"id": "uuid", "after": "integer", "limit": "integer"},
)

PAGE_DIGESTS = Statement(
    "settlement_file_page_digests",
    "SELECT sha256(content) FROM {s}.reconciliation_file_pages WHERE file_id = :id ORDER BY number",
    {"id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. `size` bytes have come, of `total` if that is known; `next_line` is where `tail` begins. Times are UTC."""

    id: UUID
    source: str
    name: str
    status: FileStatus
    size: int
    total: int | None
    sha256: bytes | None
    header: bytes | None
    pages: int
    records: int
    next_line: int
    tail: bytes | None
    etag: str | None
    url: str | None
    night: date | None
    tries: int
    actor: str
    asked_because: str | None
    reason: str | None
    run_id: UUID | None
    created_at: datetime
    touched_at: datetime

    def __repr__(self) -> str:
        return f"StoredFile({self.id}, {self.status})"


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Whole records of a file, in its own bytes; `first_line` counts the file's physical lines from 1."""

    number: int
    first_line: int
    records: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """What a slice brought: pages, and what stands after them. `size` counts from the beginning of the file."""

    size: int
    pages: Sequence[StoredPage]
    header: bytes | None
    tail: bytes
    next_line: int
    total: int | None = None
    etag: str | None = None


def add(
    database: Database,
    *,
    source: str,
    name: str,
    actor: str,
    url: str | None = None,
    night: date | None = None,
    asked_because: str | None = None,
) -> UUID | None:
    """Note a file that is going to be received; None if that of this night is on record already."""
    given = {"source": source, "name": name, "url": url, "night": night, "actor": actor, "asked_because": asked_because}
    rows = database.fetch(ADD, id=str(uuid7()), **given)
    return UUID(rows[0][0]) if rows else None


def read(database: Database, file_id: UUID) -> StoredFile:
    """Raises `NotFound`."""
    rows = database.fetch(READ, id=str(file_id))
    if not rows:
        raise NotFound(f"there is no settlement file {file_id}; `reminders reconcile --files` lists those there are")
    return _file(rows[0])


def files(database: Database, limit: int) -> list[StoredFile]:
    """Newest first."""
    return [_file(row) for row in database.fetch(LIST, limit=limit)]


def append(database: Database, file_id: UUID, at: int, received: Received) -> bool:
    """Keep what was received behind byte `at`; false if the file no longer stands there.

    Crash here: the file stands where it stood, and whoever goes on asks for the same bytes again.
    """
    pages = received.pages
    return bool(
        database.fetch(
            APPEND,
            id=str(file_id),
            at=at,
            size=received.size,
            total=received.total,
            etag=received.etag,
            header=_bytes(received.header),
            tail=_bytes(received.tail),
            next_line=received.next_line,
            numbers=[page.number for page in pages],
            first_lines=[page.first_line for page in pages],
            records=[page.records for page in pages],
            contents=[_bytes(page.content) for page in pages],
        )
    )


def finish(database: Database, file_id: UUID, at: int, sha256: bytes) -> bool:
    """All of it is there: it forgets where it came from. False if it no longer stands at `at`."""
    return bool(database.fetch(FINISH, id=str(file_id), at=at, digest=_bytes(sha256)))


def note_try(database: Database, file_id: UUID, at: int) -> int | None:
    """One more attempt in a row has brought nothing; how many there were. None if the file no longer stands at `at`."""
    rows = database.fetch(NOTE_TRY, id=str(file_id), at=at)
    return rows[0][0] if rows else None


def refuse(database: Database, file_id: UUID, reason: str, *, told: bool = False) -> bool:
    """Nothing will come of it: its pages are deleted. False if it is neither being received nor waiting.

    With `told` there is a notice: nobody waits for the answer.
    """
    news = database.fetch(REFUSE, id=str(file_id), reason=reason, told=told)
    for (each,) in news:
        tell(each)
    return bool(news)


def pages_after(database: Database, file_id: UUID, number: int, limit: int = 1) -> list[StoredPage]:
    """The next pages behind this number, in order."""
    rows = database.fetch(PAGES, id=str(file_id), after=number, limit=limit)
    return [StoredPage(at, line, records, bytes(content)) for at, line, records, content in rows]


def page_digests(database: Database, file_id: UUID) -> list[bytes]:
    """The SHA-256 of each page, in order, worked out where the pages are."""
    return [bytes(digest) for (digest,) in database.fetch(PAGE_DIGESTS, id=str(file_id))]


def _bytes(raw: bytes | None) -> Any:
    return None if raw is None else psycopg2.Binary(raw)


def _file(row: tuple[Any, ...]) -> StoredFile:
    columns: list[Any] = [_python(value) for value in row]
    for place in (0, _RUN):
        columns[place] = UUID(columns[place]) if columns[place] else None
    return StoredFile(*columns)


def _python(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    return value.astimezone(UTC) if isinstance(value, datetime) else value

"""What imports of calendars have made: an entry for each alarm of each turn of an event, with its reminder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.request import ReminderRequest
from reminders.ledger import changing
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.statement import Statement

PAGE = 5000
"""Entries read in one round trip."""

BEGIN = Statement(
    "calendar_begin",
    """
INSERT INTO {s}.calendars AS c (id, tenant_id, user_id, kind, channel, import_id)
VALUES (:id, :tenant_id, :user_id, :kind, :channel, :import_id)
ON CONFLICT (id) DO UPDATE SET import_id = EXCLUDED.import_id, imported_at = clock_timestamp()
RETURNING 1
""",
    {"id": "uuid", "tenant_id": "text", "user_id": "text", "kind": "text", "channel": "text", "import_id": "uuid"},
)

# Locks out an import that begins meanwhile until the transaction has ended.
STILL_OURS = Statement(
    "calendar_still_ours",
    "SELECT 1 FROM {s}.calendars WHERE id = :id AND import_id = :import_id FOR NO KEY UPDATE",
    {"id": "uuid", "import_id": "uuid"},
)

ENTRIES = Statement(
    "calendar_entries",
    """
SELECT encode(entry_key, 'hex'), encode(uid_key, 'hex'), recurrence_id, sequence, encode(content_hash, 'hex'), due_at,
       reminder_id::text, ended
FROM {s}.calendar_entries WHERE calendar_id = :id AND entry_key > decode(:after, 'hex') ORDER BY entry_key LIMIT :page
""",
    {"id": "uuid", "after": "text", "page": "integer"},
)

SAVE = Statement(
    "calendar_save",
    """
INSERT INTO {s}.calendar_entries AS e
    (calendar_id, entry_key, uid_key, recurrence_id, sequence, content_hash, due_at, reminder_id, ended)
SELECT :id, entry_key, uid_key, recurrence_id, sequence, content_hash, due_at, reminder_id, ended
FROM json_to_recordset(:rows) AS i (entry_key bytea, uid_key bytea, recurrence_id text, sequence integer,
                                    content_hash bytea, due_at timestamptz, reminder_id uuid, ended boolean)
ON CONFLICT (calendar_id, entry_key) DO UPDATE
SET sequence = EXCLUDED.sequence, content_hash = EXCLUDED.content_hash, due_at = EXCLUDED.due_at,
    reminder_id = EXCLUDED.reminder_id, ended = EXCLUDED.ended
RETURNING 1
""",
    {"id": "uuid", "rows": "json"},
)

LOCK = Statement("calendar_lock", "SELECT 1 FROM {s}.due WHERE id = :id FOR NO KEY UPDATE", {"id": "uuid"})
STATUS = Statement("calendar_status", "SELECT status FROM {s}.reminders WHERE id = :id", {"id": "uuid"})

# What has been attempted under its present key keeps its content: the body of every attempt is the same.
EDIT_IF_NOT_ATTEMPTED = Statement(
    "calendar_edit",
    """
WITH edited AS (
    UPDATE {s}.reminders r
    SET destination = :destination, destination_id = :destination_id, data = :data, zone = :zone
    WHERE r.id = :id AND r.status = 'live'
      AND NOT EXISTS (SELECT 1 FROM {s}.notification_deliveries n WHERE n.delivery_key = r.delivery_key)
    RETURNING r.id, r.destination_id
)
UPDATE {s}.due d SET destination_id = edited.destination_id FROM edited WHERE d.id = edited.id RETURNING 1
""",
    {"id": "uuid", "destination": "text", "destination_id": "uuid", "data": "jsonb", "zone": "text"},
)

PRUNE = Statement(
    "calendar_prune",
    """
DELETE FROM {s}.calendar_entries e
WHERE e.calendar_id = :id AND e.due_at < :before AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = e.reminder_id)
RETURNING 1
""",
    {"id": "uuid", "before": "timestamptz"},
)

# Of reminders that are no longer there, those whose identity is remembered.
PURGED = Statement(
    "calendar_purged",
    """
SELECT wanted.identity FROM unnest(:identities) AS wanted (identity)
JOIN {s}.keys_seen k ON k.identity_key = decode(wanted.identity, 'hex')
LEFT JOIN {s}.reminders r ON r.identity_key = k.identity_key
WHERE r.id IS NULL
""",
    {"identities": "text[]"},
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a calendar's import made of one alarm of one turn. `content_hash` is its request's."""

    entry_key: bytes
    uid_key: bytes
    recurrence_id: str
    sequence: int
    content_hash: bytes
    due_at: datetime
    reminder_id: UUID
    ended: bool = False


def begin(
    connection: CallersConnection, schema: str, calendar: UUID, import_id: UUID, about: tuple[str, str, str, str]
) -> None:
    """Note an import of a calendar, so that an older one that still runs gives way. `about`: tenant, user, kind, channel."""
    names = dict(zip(("tenant_id", "user_id", "kind", "channel"), about, strict=True))
    fetch(connection, schema, BEGIN, id=str(calendar), import_id=str(import_id), **names)


def still_ours(connection: CallersConnection, schema: str, calendar: UUID, import_id: UUID) -> bool:
    """Whether no newer import of the calendar has begun; none can until the caller's transaction has ended."""
    return bool(fetch(connection, schema, STILL_OURS, id=str(calendar), import_id=str(import_id)))


def entries(connection: CallersConnection, schema: str, calendar: UUID) -> Iterator[Entry]:
    """All entries of a calendar."""
    after = ""
    while rows := fetch(connection, schema, ENTRIES, id=str(calendar), after=after, page=PAGE):
        for key, uid, recurrence_id, sequence, content, due_at, reminder_id, ended in rows:
            yield Entry(
                bytes.fromhex(key), bytes.fromhex(uid), recurrence_id, sequence, bytes.fromhex(content),
                due_at.astimezone(UTC), UUID(reminder_id), ended,
            )  # fmt: skip
        after = rows[-1][0]


def save(connection: CallersConnection, schema: str, calendar: UUID, changed: Sequence[Entry]) -> None:
    """Write entries, new ones and such that have changed."""
    rows = [
        {
            "entry_key": f"\\x{entry.entry_key.hex()}",
            "uid_key": f"\\x{entry.uid_key.hex()}",
            "recurrence_id": entry.recurrence_id,
            "sequence": entry.sequence,
            "content_hash": f"\\x{entry.content_hash.hex()}",
            "due_at": entry.due_at.isoformat(),
            "reminder_id": str(entry.reminder_id),
            "ended": entry.ended,
        }
        for entry in sorted(changed, key=lambda entry: entry.entry_key)
    ]
    fetch(connection, schema, SAVE, id=str(calendar), rows=json.dumps(rows))


def prune(connection: CallersConnection, schema: str, calendar: UUID, before: datetime) -> None:
    """Remove the entries of what was due before an instant and is purged."""
    fetch(connection, schema, PRUNE, id=str(calendar), before=before)


def is_cancelled(connection: CallersConnection, schema: str, reminder_id: UUID) -> bool:
    """Whether a reminder stands cancelled; until the caller's transaction ends nobody can cancel it, if it was live."""
    fetch(connection, schema, LOCK, id=str(reminder_id))
    rows = fetch(connection, schema, STATUS, id=str(reminder_id))
    return bool(rows) and rows[0][0] == "cancelled"


def bring(connection: CallersConnection, schema: str, reminder_id: UUID, request: ReminderRequest) -> None:
    """Move a reminder to where `request` has it, and give it that one's content. Raises as `reschedule` does."""
    changing.reschedule(
        connection, schema, reminder_id, due_at=request.due_at, zone=request.zone, expires_at=request.expires_at
    )
    fetch(
        connection,
        schema,
        EDIT_IF_NOT_ATTEMPTED,
        id=str(reminder_id),
        destination=request.destination,
        destination_id=str(request.destination_id),
        data=request.data,
        zone=request.zone,
    )


def purged(connection: CallersConnection, schema: str, identities: Sequence[bytes]) -> set[bytes]:
    """Which of these identities belonged to reminders that have ended and were purged."""
    rows = fetch(connection, schema, PURGED, identities=[identity.hex() for identity in identities])
    return {bytes.fromhex(row[0]) for row in rows}

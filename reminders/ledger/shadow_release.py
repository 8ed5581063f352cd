"""Releasing what was shadowed, by name: it is pending again, under a key of its own, and sent as any other."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from reminders.domain.errors import NotFound, Refused
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

_BEGIN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'"

# In a statement of its own: what the next one sees is what stands while it is locked. What is shadowed has no row of `due`, and
# gets none while we hold this one; of what is live nothing is locked but this, so that nobody waits in a circle.
LOCK = Statement("shadow_release_lock", "SELECT 1 FROM {s}.reminders WHERE id = :id FOR NO KEY UPDATE", {"id": "uuid"})

STANDS = Statement(
    "shadow_release_stands",
    """
SELECT r.status, r.due_at, r.expires_at <= clock_timestamp(), r.delivery_key, r.tenant_id, q.mode
FROM {s}.reminders r LEFT JOIN {s}.tenant_policies q ON q.tenant_id = r.tenant_id AND q.channel = ''
WHERE r.id = :id
""",
    {"id": "uuid"},
)

MOVE = Statement(
    "shadow_release_move",
    "SELECT m.kind, m.said, m.delivery_key, m.version FROM {s}.move_row(:id, :due_at, NULL, NULL) m",
    {"id": "uuid", "due_at": "timestamptz"},
)

NOTE = Statement(
    "shadow_release_note",
    """
UPDATE {s}.shadow_deliveries
SET released_at = clock_timestamp(), released_by = :actor, released_host = :host, released_reason = :reason
WHERE delivery_key = :key RETURNING 1
""",
    {"key": "text", "actor": "text", "host": "text", "reason": "text"},
)


@dataclass(frozen=True, slots=True)
class Released:
    """A reminder that is pending again."""

    id: UUID
    delivery_key: str
    version: int


def release(database: Database, reminder_id: UUID, *, actor: str, reason: str) -> Released:
    """Let a shadowed reminder be sent after all, under a new version.

    Raises `NotFound`; `Refused` unless it is shadowed and has not expired, and while its tenant is in shadow, where it would only
    be shadowed again; `InvalidInput` without `actor` and `reason`.
    """
    said = {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(_BEGIN)
        run = partial(fetch, connection, database.schema)
        run(LOCK, id=str(reminder_id))
        found = run(STANDS, id=str(reminder_id))
        if not found:
            raise NotFound(f"there is no reminder {reminder_id}")
        status, due_at, expired, key, tenant, mode = found[0]
        if status != "shadowed":
            raise Refused(f"reminder {reminder_id} is {status}: only what is shadowed is released")
        if expired:
            raise Refused(f"reminder {reminder_id} has expired; reschedule moves it, and its expiry with it")
        if mode == "shadow":
            raise Refused(f"tenant {tenant} is in shadow, where it would be shadowed again; set the tenant live first")
        ((kind, why, new_key, version),) = run(MOVE, id=str(reminder_id), due_at=due_at)
        if kind != "moved":
            raise Refused(why)
        run(NOTE, key=key, **said)
    # Crash here, or before: it is pending under its new key, or shadowed as it was.
    return Released(reminder_id, new_key, version)

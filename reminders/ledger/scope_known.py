"""Whether the ledger knows what an operator's word names: what is mistyped covers nothing, and would look as if it worked.

What is not known is no fault: a pause may be wanted before the first reminder. So it is told, and not refused.
"""

from __future__ import annotations

from psycopg2.errors import QueryCanceled

from reminders.domain.errors import InvalidInput
from reminders.domain.pauses import PauseScope
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

LONGEST_LOOK_MS = 3000
"""What is not found in that time is told neither as known nor as unknown: nobody waits longer for it."""

OF_A_REMINDER = Statement(
    "scope_of_a_reminder",
    "SELECT destination_id::text FROM {s}.reminders WHERE id = :destination",
    {"destination": "uuid"},
)

# What is live, or has a word of its own, is found by an index or in a small table; only what is not is looked for among all reminders.
UNKNOWN = Statement(
    "scope_unknown",
    """
SELECT name FROM unnest(ARRAY['tenant', 'channel', 'kind', 'destination'],
                        ARRAY[:tenant, :channel, :kind, :destination::text]) AS wanted (name, value)
WHERE value IS NOT NULL AND NOT CASE name
    WHEN 'tenant' THEN EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE tenant_id = :tenant)
                    OR EXISTS (SELECT 1 FROM {s}.reminders WHERE tenant_id = :tenant) OR EXISTS (SELECT 1 FROM {s}.series WHERE tenant_id = :tenant)
    WHEN 'channel' THEN EXISTS (SELECT 1 FROM {s}.known_channels k WHERE k.name = :channel)
                     OR EXISTS (SELECT 1 FROM {s}.destinations WHERE channel = :channel) OR EXISTS (SELECT 1 FROM {s}.reminders WHERE channel = :channel)
    WHEN 'kind' THEN EXISTS (SELECT 1 FROM {s}.kind_policies WHERE kind = :kind) OR EXISTS (SELECT 1 FROM {s}.series WHERE kind = :kind)
                  OR EXISTS (SELECT 1 FROM {s}.reminders WHERE kind = :kind)
    ELSE EXISTS (SELECT 1 FROM {s}.destinations WHERE id = :destination) OR EXISTS (SELECT 1 FROM {s}.reminders WHERE destination_id = :destination)
END
""",
    {"tenant": "text", "channel": "text", "kind": "text", "destination": "uuid"},
)


def refuse_other_ids(database: Database, scope: PauseScope) -> None:
    """Raise `InvalidInput` if what is named as a destination is a reminder."""
    if scope.destination_id is None:
        return
    if rows := database.fetch(OF_A_REMINDER, destination=str(scope.destination_id)):
        raise InvalidInput("destination_id", f"is the id of a reminder, which goes to destination {rows[0][0]}")


def unknown(database: Database, scope: PauseScope) -> list[str]:
    """Which of `tenant`, `channel`, `kind` and `destination`, as `scope` names them, no reminder and no setting has."""
    place = scope.destination_id
    given = {
        "tenant": scope.tenant_id,
        "channel": scope.channel,
        "kind": scope.kind,
        "destination": None if place is None else str(place),
    }
    bound = database.bound(UNKNOWN)
    try:
        with database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {LONGEST_LOOK_MS}")
            cursor.execute(bound.plain, bound.arguments(given))
            return [name for (name,) in cursor.fetchall()]
    except QueryCanceled:
        return []


def words(scope: PauseScope, names: list[str]) -> str:
    """What is said of those that are `unknown`."""
    values = {
        "tenant": scope.tenant_id,
        "channel": scope.channel,
        "kind": scope.kind,
        "destination": scope.destination_id,
    }
    named = ", ".join(f"{name} {values[name]}" for name in names)
    return f"no reminder or setting here has {named}: it is in force for what may come; is that what you meant?"

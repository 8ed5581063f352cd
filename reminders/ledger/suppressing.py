"""Suppressions: the word that somebody, or an address, is not to be sent anything any more, or nothing of a kind or channel.

They are looked at by each claim. None is ever changed: it is lifted, and stays as evidence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.errors import NotFound, Refused
from reminders.domain.identity import uuid7
from reminders.domain.suppressions import Scope
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.claims_under_way import LONGEST_WAIT, await_claims
from reminders.ledger.database import Database
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

TRIES = 10
"""How often one is added anew because another transaction has lifted the one that stood in between."""

# Sorted, so that two transactions that say the same cannot deadlock. What stands already stays as it was said first.
ADD = Statement(
    "suppress",
    """
INSERT INTO {s}.suppressions (id, tenant_id, user_id, destination_id, channel, kind, reason, source, actor)
SELECT id, tenant_id, user_id, destination_id, channel, kind, reason, source, actor
FROM json_to_recordset(:rows) AS i (id uuid, tenant_id text, user_id text, destination_id uuid, channel text, kind text,
                                    reason text, source text, actor text)
ORDER BY tenant_id, user_id, destination_id, channel, kind
ON CONFLICT DO NOTHING
RETURNING id::text
""",
    {"rows": "json"},
)

_OVER = {"tenant": "text", "channel": "text", "kind": "text"}
_WHICH: dict[str, tuple[str, dict[str, str]]] = {
    "user": (
        # Also what stands under the name of a user who was erased.
        "x.tenant_id = :tenant AND x.user_id IN (:user, {s}.erased_user(:tenant, :user)) AND x.channel = :channel AND x.kind = :kind",
        {**_OVER, "user": "text"},
    ),
    "destination": (
        "x.tenant_id = :tenant AND x.destination_id = :destination AND x.channel = :channel AND x.kind = :kind",
        {**_OVER, "destination": "uuid"},
    ),
    "id": ("x.id = :id", {"id": "uuid"}),
}
"""By what one suppression is named, each way with an index of its own."""

STANDING = {
    way: Statement(
        f"suppressed_{way}",
        f"SELECT x.id::text FROM {{s}}.suppressions x WHERE x.lifted_at IS NULL AND {condition}",
        types,
    )
    for way, (condition, types) in _WHICH.items()
}

LIFT = {
    way: Statement(
        f"unsuppress_{way}",
        f"""
UPDATE {{s}}.suppressions x
SET lifted_at = clock_timestamp(), lifted_by = :actor, lifted_reason = :reason
WHERE x.lifted_at IS NULL AND {condition}
RETURNING x.id::text
""",
        {**types, "actor": "text", "reason": "text"},
    )
    for way, (condition, types) in _WHICH.items()
}

LIST = Statement(
    "list_suppressions",
    """
SELECT x.id::text, x.tenant_id, x.user_id, x.destination_id::text, NULLIF(x.channel, ''), NULLIF(x.kind, ''), x.reason, x.source,
       x.actor, x.suppressed_at, x.lifted_at, x.lifted_by, x.lifted_reason
FROM {s}.suppressions x
WHERE (:id IS NULL OR x.id = :id) AND (:lifted OR x.lifted_at IS NULL) AND (:tenant IS NULL OR x.tenant_id = :tenant)
  AND (:user IS NULL OR x.user_id IN (:user, {s}.erased_user(x.tenant_id, :user))) AND (:destination IS NULL OR x.destination_id = :destination)
  AND (:channel IS NULL OR x.channel IN ('', :channel)) AND (:kind IS NULL OR x.kind IN ('', :kind))
ORDER BY x.id LIMIT :limit
""",
    {**_OVER, "user": "text", "destination": "uuid", "id": "uuid", "lifted": "boolean", "limit": "integer"},
)

# Of a user by an index; of a destination by reading all that is live.
LIVE = {
    way: Statement(
        f"live_of_{way}",
        f"""
SELECT count(*), count(*) FILTER (WHERE d.status = 'sending'), max(d.wake_at) FILTER (WHERE d.status = 'sending')
FROM {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id
WHERE r.tenant_id = :tenant AND {subject} AND :channel IN ('', r.channel) AND :kind IN ('', r.kind)""",
        _WHICH[way][1],
    )
    for way, subject in {"user": "r.user_id = :user", "destination": "d.destination_id = :destination"}.items()
}

# Read from end to end: it is asked by a person, who has named one address.
OTHER_SPELLINGS = Statement(
    "other_spellings",
    """
SELECT DISTINCT d.destination_id::text FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
WHERE r.tenant_id = :tenant AND r.channel = :channel AND lower(r.destination) = lower(:address)
  AND d.destination_id <> :destination AND NOT EXISTS (
    SELECT 1 FROM {s}.suppressions x WHERE x.tenant_id = :tenant AND x.destination_id = d.destination_id
      AND x.kind IN ('', :kind) AND x.lifted_at IS NULL)
ORDER BY 1""",
    {**_OVER, "address": "text", "destination": "uuid"},
)


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """A suppression to add, checked."""

    id: UUID
    scope: Scope
    reason: str
    source: str
    actor: str


@dataclass(frozen=True, slots=True)
class Added:
    """The suppression that stands now, and whether this call has added it."""

    id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class Suppression:
    """A suppression on record; `channel` and `kind` are None for all of them. It stands until `lifted_at`. UTC."""

    id: UUID
    tenant_id: str
    user_id: str | None
    destination_id: UUID | None
    channel: str | None
    kind: str | None
    reason: str
    source: str
    actor: str
    suppressed_at: datetime
    lifted_at: datetime | None
    lifted_by: str | None
    lifted_reason: str | None


@dataclass(frozen=True, slots=True)
class Live:
    """Reminders that live under a suppression. Those with an open claim may still be sent; the last such claim ends at
    `claims_end_at`, UTC. The others end as `suppressed` when they come due, if it still stands then.
    """

    reminders: int
    open_claims: int
    claims_end_at: datetime | None


def new_suppression(scope: Scope, *, reason: object, source: object, actor: object) -> NewSuppression:
    """A suppression to add. Raises `InvalidInput`."""
    return NewSuppression(
        uuid7(),
        scope,
        checked_words("reason", reason),
        checked_words("source", source),
        checked_words("actor", actor),
    )


def add(connection: CallersConnection, schema: str, wanted: NewSuppression) -> Added:
    """Add it in the caller's transaction, unless the same stands already. Raises `Refused` if others keep lifting it."""
    for _ in range(TRIES):
        if fetch(connection, schema, ADD, rows=_rows([wanted])):
            return Added(wanted.id, created=True)
        standing = fetch(connection, schema, STANDING[wanted.scope.way], **wanted.scope.values())
        if standing:
            return Added(UUID(standing[0][0]), created=False)
        # Lifted by another transaction in between: now there is room for it.
    raise Refused(f"others keep lifting the suppression of {wanted.scope.words()}; nothing was written, try again")


def add_many(connection: CallersConnection, schema: str, wanted: Sequence[NewSuppression]) -> int:
    """Add those that do not stand already, in one statement; how many that were."""
    return len(fetch(connection, schema, ADD, rows=_rows(wanted))) if wanted else 0


def lift(
    connection: CallersConnection, schema: str, which: Scope | UUID, *, actor: object, reason: object
) -> UUID | None:
    """End the suppression with this id, or of exactly this scope, in the caller's transaction; None if none stands.

    Raises `InvalidInput`.
    """
    way, named = ("id", {"id": str(which)}) if isinstance(which, UUID) else (which.way, which.values())
    said = {"actor": checked_words("actor", actor), "reason": checked_words("reason", reason)}
    found = fetch(connection, schema, LIFT[way], **named, **said)
    return UUID(found[0][0]) if found else None


def live_under(database: Database, scope: Scope, *, wait: float = LONGEST_WAIT) -> Live:
    """What lives under a suppression that was committed before, once no claim that began before it can still commit.

    Raises `ServiceUnavailable` if such a claim has not ended within `wait` seconds; the suppression stands all the same.
    """
    await_claims(database, f"The suppression of {scope.words()}", wait)
    # Not `Database.fetch`: it rules out reading a table from end to end.
    with database.transaction() as connection:
        ((reminders, open_claims, until),) = fetch(connection, database.schema, LIVE[scope.way], **scope.values())
    return Live(reminders, open_claims, until and until.astimezone(UTC))


def other_spellings(database: Database, scope: Scope, channel: str, address: str) -> list[UUID]:
    """Destinations of live reminders whose address differs from this one in upper and lower case only, and that the
    suppression of `scope`, which is of this address, does not cover; nor does another.
    """
    with database.transaction() as connection:
        given = {**scope.values(), "channel": channel, "address": address}
        del given["user"]
        rows = fetch(connection, database.schema, OTHER_SPELLINGS, **given)
    return [UUID(row[0]) for row in rows]


def suppressions(
    database: Database, *, lifted: bool = False, limit: int = 100, **filters: str | None
) -> list[Suppression]:
    """Suppressions that stand, with `lifted` all of them, oldest first. A channel or kind also finds those of every one."""
    return [_suppression(row) for row in database.fetch(LIST, lifted=lifted, limit=limit, **filters)]


def suppression(database: Database, wanted: UUID) -> Suppression:
    """The one with this id, lifted or not. Raises `NotFound`."""
    found = database.fetch(LIST, id=str(wanted), lifted=True, limit=1)
    if not found:
        raise NotFound(f"there is no suppression {wanted}")
    return _suppression(found[0])


def _rows(wanted: Sequence[NewSuppression]) -> str:
    return json.dumps(
        [
            {**asdict(each.scope), "id": each.id, "reason": each.reason, "source": each.source, "actor": each.actor}
            for each in wanted
        ],
        default=str,
    )


def _suppression(row: tuple[Any, ...]) -> Suppression:
    id_, tenant, user, place, *columns = row
    known: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in columns]
    return Suppression(UUID(id_), tenant, user, None if place is None else UUID(place), *known)

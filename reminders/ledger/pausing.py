"""An operator's word that nothing is to be sent, for everything or a part of it, and that it may go on."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.identity import uuid7
from reminders.domain.pauses import PauseScope
from reminders.domain.request import checked_text
from reminders.ledger.claims_under_way import LONGEST_WAIT, await_claims
from reminders.ledger.database import Database
from reminders.ledger.pause_rules import ALIKE, FITS
from reminders.ledger.releasing import AHEAD
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

_SCOPE = {"tenant": "text", "channel": "text", "kind": "text", "destination": "uuid"}
_SAME_SCOPE = """z.tenant_id IS NOT DISTINCT FROM :tenant AND z.channel IS NOT DISTINCT FROM :channel
      AND z.kind IS NOT DISTINCT FROM :kind AND z.destination_id IS NOT DISTINCT FROM :destination"""

# Said twice by the same person for the same reason it is one pause: a command may have been killed, a message repeated.
PAUSE = Statement(
    "pause",
    f"""
WITH standing AS (
    SELECT z.id FROM {{s}}.pauses z
    WHERE z.ended_at IS NULL AND NOT z.by_mode AND {_SAME_SCOPE} AND z.actor = :actor AND z.reason = :reason ORDER BY z.paused_at LIMIT 1
), made AS (
    INSERT INTO {{s}}.pauses (id, tenant_id, channel, kind, destination_id, reason, actor, host)
    SELECT :id, :tenant, :channel, :kind, :destination, :reason, :actor, :host WHERE NOT EXISTS (SELECT 1 FROM standing)
    RETURNING id
)
SELECT id::text, true FROM made UNION ALL SELECT id::text, false FROM standing
""",
    {**_SCOPE, "id": "uuid", "reason": "text", "actor": "text", "host": "text"},
)

OPEN_CLAIMS = Statement(
    "open_claims",
    f"""
SELECT count(*), max(d.wake_at)
FROM {{s}}.pauses z CROSS JOIN {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id
WHERE z.id = :id AND d.status = 'sending' AND {FITS}
""",
    {"id": "uuid"},
)

# What ended it first stays on record; a later word only changes the rate of what is still held, also by an earlier pause of
# exactly the same that had not let all go when this one was said.
RESUME = Statement(
    "resume",
    f"""
UPDATE {{s}}.pauses z
SET ended_at = COALESCE(z.ended_at, clock_timestamp()), ended_by = COALESCE(z.ended_by, :actor),
    ended_host = COALESCE(z.ended_host, :host), ended_reason = CASE WHEN z.ended_at IS NULL THEN :reason ELSE z.ended_reason END,
    rate = :rate, stopped_at = NULL,
    next_at = CASE WHEN z.next_at IS NOT NULL THEN LEAST(z.next_at, clock_timestamp() + interval '{AHEAD} seconds') END
WHERE z.id = ANY(:ids)
   OR (z.ended_at IS NOT NULL AND z.drain_until IS NULL AND EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.hold_id = z.id)
       AND EXISTS (SELECT 1 FROM {{s}}.pauses y WHERE y.id = ANY(:ids) AND {ALIKE}))
RETURNING z.id::text
""",
    {"ids": "uuid[]", "actor": "text", "host": "text", "reason": "text", "rate": "float8"},
)

ACTIVE_OF_SCOPE = Statement(
    "pauses_of_scope",
    f"SELECT z.id::text FROM {{s}}.pauses z WHERE z.ended_at IS NULL AND NOT z.by_mode AND {_SAME_SCOPE} ORDER BY z.paused_at",
    _SCOPE,
)

LIST = Statement(
    "list_pauses",
    """
SELECT z.id::text, z.tenant_id, z.channel, z.kind, z.destination_id::text, z.reason, z.actor, z.host, z.paused_at, z.ended_at,
       z.ended_by, z.ended_reason, z.rate, (SELECT count(*) FROM {s}.due d WHERE d.hold_id = z.id),
       z.by_mode
FROM {s}.pauses z
WHERE CASE WHEN :ids IS NULL THEN z.drain_until IS NULL AND (:ended OR z.ended_at IS NULL OR EXISTS (SELECT 1 FROM {s}.due d WHERE d.hold_id = z.id))
           ELSE z.id = ANY(:ids) END
ORDER BY z.paused_at, z.id LIMIT :limit
""",
    {"ids": "uuid[]", "ended": "boolean", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, active until `ended_at`. `held` counts the reminders that it holds now; `rate` is per second. UTC."""

    id: UUID
    scope: PauseScope
    reason: str
    actor: str
    host: str
    paused_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    ended_reason: str | None
    rate: float | None
    held: int
    by_mode: bool
    """Whether it holds because its tenant is off. Such a one ends with the tenant's mode."""

    def fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        scope = {name: getattr(self.scope, name) for name in PauseScope.__slots__}
        return {
            "id": str(self.id),
            **{name: None if value is None else str(value) for name, value in scope.items()},
            **{name: _plain(getattr(self, name)) for name in Pause.__slots__ if name not in {"id", "scope"}},
        }


@dataclass(frozen=True, slots=True)
class Paused:
    """What `pause` came to: nothing that it covers is begun any more. `open_claims` began before it and may still end.

    `claims_end_at` is when the last of them ends at the latest, UTC; `created` is False where the same person had said
    the same before.
    """

    pause: Pause
    created: bool
    open_claims: int
    claims_end_at: datetime | None


def read_scope(
    *,
    tenant: str | None = None,
    channel: str | None = None,
    kind: str | None = None,
    destination: str | UUID | None = None,
    everything: object = False,
) -> PauseScope:
    """What a command or a message names. Raises `InvalidInput`; also where it names nothing and does not say so."""
    names = {"tenant_id": tenant, "channel": channel, "kind": kind}
    scope = PauseScope(
        **{name: None if text is None else checked_text(name, text) for name, text in names.items()},
        destination_id=None if destination is None else _destination(destination),
    )
    if scope.names_something() == (everything is True):
        raise InvalidInput(
            "scope", "name a tenant, channel, kind or destination, or say that everything is meant; not both"
        )
    return scope


def read_ids(ids: object, of: str = "pauses; `reminders pause list` shows them") -> list[UUID]:
    """The ids that a message names, of what `of` says. Raises `InvalidInput`, also where there are none."""
    try:
        found = [UUID(each) for each in ids] if isinstance(ids, list | tuple) else []
    except (ValueError, TypeError, AttributeError):
        found = []
    if not found:
        raise InvalidInput("ids", f"must be a list of ids of {of}")
    return found


def pause(database: Database, scope: PauseScope, *, actor: str, reason: str, wait: float = LONGEST_WAIT) -> Paused:
    """Hold what the scope covers, until it is resumed; return once no claim that began before can still commit.

    Raises `InvalidInput` without `actor` and `reason`; `ServiceUnavailable` if a claim that began before has not ended
    within `wait` seconds: the pause is in force all the same.
    """
    said = {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }
    ((id_, created),) = database.fetch(PAUSE, **_named(scope), **said, id=str(uuid7()))
    # Crash here: the pause is in force, and its list shows it. Said again, it is the same one.
    await_claims(database, f"Pause {id_}", wait)
    ((open_claims, until),) = database.fetch(OPEN_CLAIMS, id=id_)
    return Paused(_these(database, [id_])[0], created, open_claims, until and until.astimezone(UTC))


def resume(
    database: Database, ids: Sequence[UUID], *, actor: str, reason: str | None = None, rate: float | None = None
) -> list[Pause]:
    """End pauses; the scan lets go what they hold, at `rate` per second if given. Said again, it changes the rate.

    All that are named are ended, or none. Raises `InvalidInput` without `actor`, `NotFound` for an unknown id, `Refused` for
    the pause of a tenant that is off.
    """
    given = {
        "actor": checked_words("actor", actor),
        "reason": None if reason is None else checked_words("reason", reason),
        "host": socket.gethostname(),
        "rate": rate,
    }
    wanted = [str(each) for each in dict.fromkeys(ids)]
    found = _these(database, wanted)
    known = {str(each.id) for each in found}
    if missing := [each for each in wanted if each not in known]:
        raise NotFound(f"there is no pause {missing[0]}")
    if off := [each.scope.tenant_id for each in found if each.by_mode and each.ended_at is None]:
        raise Refused(f"tenant {off[0]} is off; `reminders tenant set {off[0]} --mode live` sends again what is held")
    database.fetch(RESUME, **given, ids=wanted)
    # Crash here: ended, and the ledger has the rate. The next sweep of a scan begins to let go.
    return _these(database, wanted)


def active_of_scope(database: Database, scope: PauseScope) -> list[UUID]:
    """The active pauses of exactly this scope. Raises `NotFound` if there is none."""
    found = [UUID(row[0]) for row in database.fetch(ACTIVE_OF_SCOPE, **_named(scope))]
    if not found:
        raise NotFound(
            f"no pause of exactly this is active: {scope.words()}; `reminders pause list` shows those that are"
        )
    return found


def pauses(database: Database, *, ended: bool = False, limit: int = 100) -> list[Pause]:
    """Pauses that are active or still hold something, oldest first; with `ended` all of them."""
    return [_pause(row) for row in database.fetch(LIST, ids=None, ended=ended, limit=limit)]


def _these(database: Database, ids: Sequence[str]) -> list[Pause]:
    return [_pause(row) for row in database.fetch(LIST, ids=list(ids), ended=True, limit=len(ids))]


def _named(scope: PauseScope) -> dict[str, str | None]:
    return {
        "tenant": scope.tenant_id,
        "channel": scope.channel,
        "kind": scope.kind,
        "destination": None if scope.destination_id is None else str(scope.destination_id),
    }


def _destination(given: str | UUID) -> UUID:
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("destination_id", "is no id; `reminders destination list` shows them") from None


def _pause(row: tuple[Any, ...]) -> Pause:
    id_, tenant, channel, kind, destination, *columns = row
    scope = PauseScope(tenant, channel, kind, None if destination is None else UUID(destination))
    instants_in_utc: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in columns]
    return Pause(UUID(id_), scope, *instants_in_utc)


def _plain(value: object) -> object:
    return instant_text(value) if isinstance(value, datetime) else value

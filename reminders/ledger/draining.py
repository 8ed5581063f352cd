"""Drains: a backlog is worked off oldest first at a rate that the ledger keeps, as a pause that has ended lets go.

A drain is a row of `pauses` that has ended already, with a rate: the scan lays what was due when the drain began aside, and
lets it go as it does after `resume`. What comes due later goes out as ever.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.calendar.instants import instant_text
from reminders.domain.errors import NotFound, Refused
from reminders.domain.identity import uuid7
from reminders.domain.pauses import PauseScope
from reminders.ledger.database import Database
from reminders.ledger.pause_rules import FITS
from reminders.ledger.releasing import AHEAD, GOING
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement
from reminders.ledger.taking_back import take_back_turns

_SCOPE = {"tenant": "text", "destination": "uuid"}
_OPEN_OF_SCOPE = """z.drain_until IS NOT NULL AND z.drained_at IS NULL AND z.channel IS NULL AND z.kind IS NULL
      AND z.tenant_id IS NOT DISTINCT FROM :tenant AND z.destination_id IS NOT DISTINCT FROM :destination"""

# Of a row `d`: a pause holds it meanwhile, and drain `z` goes on with it afterwards.
_PAUSED_OF_Z = "d.rated_by = z.id AND d.status = 'held'"

# Said again, it changes the rate, takes in what has come due since, and goes on if it was stopped.
DRAIN = Statement(
    "drain",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
again AS (
    UPDATE {{s}}.pauses z
    SET rate = :rate, drain_until = (SELECT now FROM t), stopped_at = NULL, ended_by = :actor, ended_host = :host,
        ended_reason = :reason,
        next_at = CASE WHEN z.next_at IS NOT NULL THEN LEAST(z.next_at, (SELECT now FROM t) + interval '{AHEAD} seconds') END
    WHERE {_OPEN_OF_SCOPE}
    RETURNING z.id
), made AS (
    INSERT INTO {{s}}.pauses
        (id, tenant_id, destination_id, reason, actor, host, paused_at, ended_at, ended_by, ended_host, ended_reason, rate, drain_until)
    SELECT :id, :tenant, :destination, :reason, :actor, :host, now, now, :actor, :host, :reason, :rate, now
    FROM t WHERE NOT EXISTS (SELECT 1 FROM again)
    RETURNING id
)
SELECT id::text, true FROM made UNION ALL SELECT id::text, false FROM again
""",
    {**_SCOPE, "id": "uuid", "rate": "float8", "reason": "text", "actor": "text", "host": "text"},
)

STOP = Statement(
    "drain_stop",
    f"""
UPDATE {{s}}.pauses z
SET stopped_at = COALESCE(z.stopped_at, clock_timestamp()), ended_by = :actor, ended_host = :host, ended_reason = :reason
WHERE {_OPEN_OF_SCOPE}
RETURNING z.id::text
""",
    {**_SCOPE, "reason": "text", "actor": "text", "host": "text"},
)

OF_SCOPE = Statement(
    "drain_of_scope",
    """
SELECT z.id::text FROM {s}.pauses z
WHERE z.drain_until IS NOT NULL AND z.channel IS NULL AND z.kind IS NULL
  AND z.tenant_id IS NOT DISTINCT FROM :tenant AND z.destination_id IS NOT DISTINCT FROM :destination
ORDER BY z.drained_at IS NULL DESC, z.paused_at DESC LIMIT 1
""",
    _SCOPE,
)

# The pause that holds exactly this; or one that has ended and still lets go what it held.
PAUSED_OF_SCOPE = Statement(
    "drain_paused",
    """
SELECT z.id::text, z.ended_at IS NOT NULL FROM {s}.pauses z
WHERE (z.ended_at IS NULL OR z.drain_until IS NULL AND EXISTS (SELECT 1 FROM {s}.due d WHERE d.hold_id = z.id)) AND z.channel IS NULL AND z.kind IS NULL
  AND z.tenant_id IS NOT DISTINCT FROM :tenant AND z.destination_id IS NOT DISTINCT FROM :destination
ORDER BY z.ended_at IS NOT NULL LIMIT 1
""",
    _SCOPE,
)

# What is laid aside; what is still to be: due since before the drain began, and not on its way; and what has its turn, and has not
# been called yet. The longest wait is by the time a reminder was due, or its retry.
LIST = Statement(
    "list_drains",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT z.id::text, z.tenant_id, z.destination_id::text, z.rate, z.ended_by, z.ended_reason, z.paused_at, z.drain_until, z.stopped_at,
       z.drained_at, held.number, found.number, going.number, LEAST(held.since, found.since, going.since),
       CASE WHEN z.next_at > (SELECT now FROM t) THEN z.next_at END
FROM {{s}}.pauses z
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(COALESCE(d.due_since, d.held_at)) AS since
    FROM (SELECT * FROM {{s}}.due d WHERE d.hold_id = z.id UNION ALL SELECT * FROM {{s}}.due d WHERE {_PAUSED_OF_Z}) d
) held
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(d.due_since) AS since FROM {{s}}.due d WHERE d.let_go_by = z.id AND {GOING}
) going
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(COALESCE(d.due_since, CASE WHEN d.turn_at = d.wake_at THEN d.waits_since END, d.wake_at)) AS since
    FROM {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id
    WHERE z.drained_at IS NULL AND z.stopped_at IS NULL AND d.wake_at <= z.drain_until AND d.status = 'pending' AND {FITS}
      AND d.let_go_by IS DISTINCT FROM z.id
) found
WHERE CASE WHEN :ids IS NULL THEN z.drain_until IS NOT NULL AND z.drained_at IS NULL ELSE z.id = ANY(:ids) END
ORDER BY z.paused_at, z.id LIMIT :limit
""",
    {"ids": "uuid[]", "limit": "integer"},
)

# Nothing is laid aside any more, nothing has its turn, and nothing that could be laid aside is due at all: a look at the head
# of the index.
FINISH_DRAINS = Statement(
    "finish_drains",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
UPDATE {{s}}.pauses z SET drained_at = (SELECT now FROM t)
WHERE z.drain_until IS NOT NULL AND z.drained_at IS NULL AND z.stopped_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.hold_id = z.id) AND NOT EXISTS (SELECT 1 FROM {{s}}.due d WHERE {_PAUSED_OF_Z})
  AND NOT EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.let_go_by = z.id AND {GOING})
  AND NOT EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.wake_at <= z.drain_until AND d.status <> 'sending')
RETURNING 1
""",
    {"now": "timestamptz"},
)


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain, under way until `drained_at`; a stopped one holds what is left. UTC.

    `held` counts what is laid aside, also what a pause holds meanwhile, `found` what still will be, `going` what has its turn and has not been called.
    `oldest_since` is since when the longest waiting of all is due. `rate` is per second, None for at once.
    """

    id: UUID
    scope: PauseScope
    rate: float | None
    actor: str
    reason: str
    began_at: datetime
    until: datetime
    stopped_at: datetime | None
    drained_at: datetime | None
    held: int
    found: int
    going: int
    oldest_since: datetime | None
    last_turn_at: datetime | None

    @property
    def left(self) -> int:
        """How many have no turn yet."""
        return self.held + self.found

    def eta_seconds(self, now: datetime) -> float | None:
        """In how many seconds the last of it has its turn; None while it is stopped."""
        if self.stopped_at is not None:
            return None
        given = max(0.0, (self.last_turn_at - now).total_seconds()) if self.last_turn_at else 0.0
        return given + (self.left / self.rate if self.rate else 0.0)

    def fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        now = datetime.now(UTC)
        eta = self.eta_seconds(now) if self.drained_at is None else 0.0
        place = self.scope.destination_id
        return {
            "id": str(self.id),
            "tenant_id": self.scope.tenant_id,
            "destination_id": None if place is None else str(place),
            **{name: _plain(getattr(self, name)) for name in Drain.__slots__ if name not in {"id", "scope"}},
            "left": self.left,
            "oldest_age_seconds": round((now - self.oldest_since).total_seconds(), 3) if self.oldest_since else 0.0,
            "eta_seconds": None if eta is None else round(eta, 3),
        }


def begin_drain(database: Database, scope: PauseScope, *, rate: float, actor: str, reason: str) -> tuple[Drain, bool]:
    """Work off what is due now of what `scope` names, at `rate` per second; and whether the drain is a new one.

    Raises `InvalidInput` without `actor` and `reason`; `Refused` where a pause of the same holds it: `resume` has a rate.
    """
    named = _named(scope)
    if paused := database.fetch(PAUSED_OF_SCOPE, **named):
        id_, resumed = paused[0]
        raise Refused(
            f"it {'was resumed, and still lets go what was held' if resumed else 'is paused'}: {scope.words()}\n"
            f"`reminders resume {id_} --rate` works off what the pause {'held' if resumed else 'holds'}"
        )
    who = {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }
    ((id_, created),) = database.fetch(DRAIN, **named, **who, rate=rate, id=str(uuid7()))
    # Crash here: the drain is in force, and its list shows it.
    return _these(database, id_), created


def stop_drain(database: Database, scope: PauseScope, *, actor: str, reason: str) -> Drain:
    """Let nothing more of it go: what is left stays held until `begin_drain` or `resume`, and what had its turn and was not
    claimed yet is held again. Raises `NotFound`.
    """
    who = {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }
    rows = database.fetch(STOP, **_named(scope), **who)
    if not rows:
        raise NotFound(f"no drain of exactly this is under way: {scope.words()}")
    # Crash here: no more turns are given, and nothing that has one is leased.
    take_back_turns(database, rows[0][0])
    return _these(database, rows[0][0])


def drain_of_scope(database: Database, scope: PauseScope) -> Drain:
    """The drain of exactly this that is under way, or else the last one. Raises `NotFound`."""
    rows = database.fetch(OF_SCOPE, **_named(scope))
    if not rows:
        raise NotFound(f"there was no drain of exactly this: {scope.words()}")
    return _these(database, rows[0][0])


def drains(database: Database, limit: int = 100) -> list[Drain]:
    """Those under way, oldest first."""
    return [_drain(row) for row in database.fetch(LIST, ids=None, limit=limit)]


def finish_drains(database: Database, now: datetime | None = None) -> None:
    """Note of drains that nothing is left to drain."""
    database.fetch(FINISH_DRAINS, now=now)


def _these(database: Database, wanted: str) -> Drain:
    return _drain(database.fetch(LIST, ids=[wanted], limit=1)[0])


def _named(scope: PauseScope) -> dict[str, str | None]:
    place = scope.destination_id
    return {"tenant": scope.tenant_id, "destination": None if place is None else str(place)}


def _drain(row: tuple[Any, ...]) -> Drain:
    id_, tenant, destination, *columns = row
    scope = PauseScope(tenant, None, None, None if destination is None else UUID(destination))
    in_utc: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in columns]
    return Drain(UUID(id_), scope, *in_utc)


def _plain(value: object) -> object:
    return instant_text(value) if isinstance(value, datetime) else value

"""Caps: how much at once, and how many a second, a tenant, a channel or a destination is sent at most."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import UUID

from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.identity import uuid7
from reminders.domain.pauses import PauseScope
from reminders.domain.turns import KnownCap, default_burst
from reminders.ledger.database import Database
from reminders.ledger.rate_rules import FASTEST, IN_FLIGHT, SLOWEST, WAITS, bounded
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

MOST_AT_ONCE = 1_000_000
KEPT_FOR = 5.0
"""Seconds for which a worker goes by what it has read of a cap."""

_SCOPE = {"tenant": "text", "channel": "text", "destination": "uuid"}
_SAME = """z.removed_at IS NULL AND z.tenant_id IS NOT DISTINCT FROM :tenant AND z.channel IS NOT DISTINCT FROM :channel
      AND z.destination_id IS NOT DISTINCT FROM :destination"""

# The one before stays on record, ended by the same word; what waits for it is woken and waits for the new one. Two who
# say it at once are taken in turn: the unique index makes one of them fail, and ask again.
SET = Statement(
    "rate_set",
    """
INSERT INTO {s}.rates (id, tenant_id, channel, destination_id, per_second, burst, concurrent, reason, actor, host)
VALUES (:id, :tenant, :channel, :destination, :per_second, :burst, :concurrent, :reason, :actor, :host)
RETURNING id::text
""",
    {
        **_SCOPE, "id": "uuid", "per_second": "float8", "burst": "integer", "concurrent": "integer", "reason": "text",
        "actor": "text", "host": "text",
    },
)  # fmt: skip

REMOVE_IF_ACTIVE = Statement(
    "rate_remove",
    f"""
UPDATE {{s}}.rates z
SET removed_at = clock_timestamp(), removed_by = :actor, removed_host = :host, removed_reason = :reason
WHERE {_SAME}
RETURNING z.id::text
""",
    {**_SCOPE, "reason": "text", "actor": "text", "host": "text"},
)

LIST = Statement(
    "list_rates",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT z.id::text, z.tenant_id, z.channel, z.destination_id::text, z.per_second, z.burst, z.concurrent, z.reason, z.actor,
       z.host, z.set_at, z.removed_at, z.removed_by, z.removed_reason,
       CASE WHEN z.removed_at IS NULL THEN {IN_FLIGHT} ELSE 0 END, w.waiting, w.since, w.last
FROM {{s}}.rates z
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(d.waits_since) AS since, max(d.wake_at) AS last FROM {{s}}.due d
    WHERE d.rate_id = z.id AND {WAITS}
) w
WHERE CASE WHEN :ids IS NULL THEN :removed OR z.removed_at IS NULL OR w.waiting > 0 ELSE z.id = ANY(:ids) END
ORDER BY z.set_at, z.id LIMIT :limit
""",
    {"ids": "uuid[]", "removed": "boolean", "limit": "integer"},
)

KNOWN = Statement(
    "rates_known",
    f"""
SELECT id::text, {bounded("per_second")}, burst, concurrent, false FROM {{s}}.rates WHERE id = ANY(:ids) AND removed_at IS NULL
UNION ALL
SELECT id::text, {bounded("rate")}, NULL, NULL, true FROM {{s}}.pauses WHERE id = ANY(:ids) AND rate IS NOT NULL
""",
    {"ids": "uuid[]"},
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A cap, in force until `removed_at`. `scope` names one thing. UTC.

    `in_flight` counts messages on their way and open claims; `waiting` the reminders that wait for a turn,
    `waiting_since` is since when the longest of them has, `waiting_until` when the last of them is looked at again.
    """

    id: UUID
    scope: PauseScope
    per_second: float | None
    burst: int | None
    concurrent: int | None
    reason: str
    actor: str
    host: str
    set_at: datetime
    removed_at: datetime | None
    removed_by: str | None
    removed_reason: str | None
    in_flight: int
    waiting: int
    waiting_since: datetime | None
    waiting_until: datetime | None

    def fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        place = self.scope.destination_id
        return {
            "id": str(self.id),
            "tenant_id": self.scope.tenant_id,
            "channel": self.scope.channel,
            "destination_id": None if place is None else str(place),
            **{name: _plain(getattr(self, name)) for name in Rate.__slots__ if name not in {"id", "scope"}},
        }


def set_rate(
    database: Database,
    scope: PauseScope,
    *,
    per_second: float | None = None,
    burst: int | None = None,
    concurrent: int | None = None,
    actor: str,
    reason: str,
) -> Rate:
    """Cap what `scope` names, instead of the cap that it had: by `per_second`, by calls at once, or both.

    `burst` is how many may go together after a quiet time; one second's worth unless it is given. Raises `InvalidInput`.
    """
    _check(scope, per_second, burst, concurrent)
    who = {"actor": checked_words("actor", actor), "host": socket.gethostname()}
    why = checked_words("reason", reason)
    if per_second is not None and burst is None:
        burst = default_burst(per_second)
    named = _named(scope)
    with database.transaction() as connection, connection.cursor() as cursor:
        # One after the other: the second replaces the first.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('reminders-rates'))")
        for statement, more in (
            (REMOVE_IF_ACTIVE, {"reason": f"replaced: {why}"[:500]}),
            (
                SET,
                {"id": str(uuid7()), "per_second": per_second, "burst": burst, "concurrent": concurrent, "reason": why},
            ),
        ):
            bound = database.bound(statement)
            cursor.execute(bound.plain, bound.arguments({**named, **who, **more}))
        ((id_,),) = cursor.fetchall()
    # Crash here: in force. Each scan and worker goes by it within `KEPT_FOR`.
    return _these(database, [id_])[0]


def remove_rate(database: Database, scope: PauseScope, *, actor: str, reason: str) -> Rate:
    """End the cap of what `scope` names; what waits for it is woken by the scan. Raises `NotFound`, `InvalidInput`."""
    given = {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }
    rows = database.fetch(REMOVE_IF_ACTIVE, **_named(scope), **given)
    if not rows:
        raise NotFound(f"no cap is set for exactly this: {scope.words()}")
    return _these(database, [rows[0][0]])[0]


def rates(database: Database, *, removed: bool = False, limit: int = 100) -> list[Rate]:
    """Caps that are in force or still waited for, oldest first; with `removed` all of them."""
    return [_rate(row) for row in database.fetch(LIST, ids=None, removed=removed, limit=limit)]


@dataclass
class KeptRates:
    """Caps, and the rates of drains, by their ids, as one worker process knows them: read again after `KEPT_FOR`. Thread-safe."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _kept: dict[UUID, tuple[float, KnownCap | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, ids: Sequence[UUID]) -> list[KnownCap]:
        """Those of the caps that are in force, in their order. May raise what means that the database is away."""
        now = self.clock()
        with self._lock:
            old = [each for each in ids if each not in self._kept or self._kept[each][0] <= now]
            if old:
                rows = self.database.fetch(KNOWN, ids=[str(each) for each in old])
                found = {UUID(row[0]): KnownCap(UUID(row[0]), row[1], row[2] or 1, *row[3:]) for row in rows}
                # Ids come from messages: what is no longer asked about is forgotten.
                self._kept = {key: value for key, value in self._kept.items() if value[0] > now}
                self._kept.update({each: (now + KEPT_FOR, found.get(each)) for each in old})
            kept = [self._kept[each][1] for each in ids]
        return [each for each in kept if each is not None]


def _check(scope: PauseScope, per_second: float | None, burst: int | None, concurrent: int | None) -> None:
    if per_second is None and concurrent is None:
        raise InvalidInput("per_second", "or concurrent is needed: a cap must cap something")
    if per_second is not None and not SLOWEST <= per_second <= FASTEST:
        raise InvalidInput("per_second", f"must be from {SLOWEST:.7f} to {FASTEST:,.0f}; `reminders pause` stops it")
    if burst is not None and per_second is None:
        raise InvalidInput("burst", "goes with per_second")
    for name, value in (("burst", burst), ("concurrent", concurrent)):
        if value is not None and not 1 <= value <= MOST_AT_ONCE:
            raise InvalidInput(name, f"must be a whole number from 1 to {MOST_AT_ONCE:,}")
    named = [each for each in (scope.tenant_id, scope.channel, scope.destination_id) if each is not None]
    if len(named) != 1 or scope.kind is not None:
        raise InvalidInput("scope", "name one tenant, one channel or one destination")


def _these(database: Database, ids: Sequence[str]) -> list[Rate]:
    return [_rate(row) for row in database.fetch(LIST, ids=list(ids), removed=True, limit=len(ids))]


def _named(scope: PauseScope) -> dict[str, str | None]:
    place = scope.destination_id
    return {"tenant": scope.tenant_id, "channel": scope.channel, "destination": None if place is None else str(place)}


def _rate(row: tuple[Any, ...]) -> Rate:
    id_, tenant, channel, destination, *columns = row
    scope = PauseScope(tenant, channel, None, None if destination is None else UUID(destination))
    in_utc: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in columns]
    return Rate(UUID(id_), scope, *in_utc)


def _plain(value: object) -> object:
    return instant_text(value) if isinstance(value, datetime) else value

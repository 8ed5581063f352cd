"""Rows of `series`: written, read and locked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.calendar.zones import known_zones
from reminders.domain.errors import NotFound
from reminders.domain.series import CatchUp, SeriesStatus
from reminders.ledger.database import Row
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import When
from reminders.pipeline.series_request import SeriesRequest, recurrence_of

Run = Callable[..., list[Row]]
"""Runs a statement inside some transaction: `run(statement, **parameters)`."""

T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

USERS_ZONE = """CASE WHEN s.follows_user THEN (
           SELECT u.zone FROM {s}.recipients u WHERE u.tenant_id = s.tenant_id AND u.user_id = s.user_id) END"""
"""SQL: the zone of the user that series `s` follows, as far as it is known."""

# A series' own word on lateness goes before its kind's, and this before its tenant's.
_COLUMNS = f"""s.id::text, s.tenant_id, s.user_id, s.kind, s.channel, s.destination, s.destination_id::text, s.deduplicates,
       s.reference, s.slot, s.data::text, s.start_wall, s.rule, s.extra, s.left_out, s.skipped, s.zone, s.follows_user,
       s.planned_zone, s.catch_up, s.max_lateness,
       (SELECT l.max_lateness FROM {{s}}.lateness_policies l WHERE l.tenant_id = s.tenant_id AND l.kind IN (s.kind, '')
        ORDER BY l.kind DESC LIMIT 1),
       {USERS_ZONE}, s.status, s.version, s.planned_until, s.plan_at, s.replan, s.fault, s.created_at, s.changed_at, (SELECT now FROM t)"""

LOCK_DUE = Statement(
    "series_lock_due",
    f"""
WITH {T}
SELECT {_COLUMNS} FROM {{s}}.series s WHERE s.plan_at <= (SELECT now FROM t)
ORDER BY s.plan_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""",
    {"now": "timestamptz", "limit": "integer"},
)

# Waits for whoever has it. What it answers is the row as it is then.
LOCK = Statement(
    "series_lock",
    f"WITH {T} SELECT {_COLUMNS} FROM {{s}}.series s WHERE s.id = ANY(:ids) ORDER BY s.id FOR NO KEY UPDATE",
    {"now": "timestamptz", "ids": "uuid[]"},
)

CLOCK = Statement("series_clock", "SELECT COALESCE(:now, clock_timestamp())", {"now": "timestamptz"})

GET = Statement(
    "series_get",
    f"WITH {T} SELECT {_COLUMNS} FROM {{s}}.series s WHERE s.id = :id",
    {"now": "timestamptz", "id": "uuid"},
)

LIST = Statement(
    "series_list",
    f"""
WITH {T}
SELECT {_COLUMNS} FROM {{s}}.series s
WHERE (:tenant IS NULL OR s.tenant_id = :tenant) AND (:user IS NULL OR s.user_id = :user)
  AND (:reference IS NULL OR s.reference = :reference) AND (:status IS NULL OR s.status = :status)
  AND (:after IS NULL OR s.id > :after)
ORDER BY s.id LIMIT :limit
""",
    {
        "now": "timestamptz", "tenant": "text", "user": "text", "reference": "text", "status": "text", "after": "uuid",
        "limit": "integer",
    },
)  # fmt: skip

INSERT = Statement(
    "series_insert",
    f"""
WITH {T}
INSERT INTO {{s}}.series (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference, slot,
                          data, identity_key, request_hash, start_wall, rule, extra, left_out, zone, follows_user,
                          planned_zone, catch_up, max_lateness, planned_until, plan_at, created_at, changed_at)
SELECT :id, :tenant_id, :user_id, :kind, :channel, :destination, :destination_id, :deduplicates, :reference, :slot, :data,
       decode(:identity_key, 'hex'), decode(:request_hash, 'hex'), :start_wall, :rule, :extra, :left_out, :zone,
       :follows_user, :zone, :catch_up, :max_lateness, now, now, now, now
FROM t
ON CONFLICT (identity_key) DO NOTHING RETURNING 1
""",
    {
        "now": "timestamptz", "id": "uuid", "tenant_id": "text", "user_id": "text", "kind": "text", "channel": "text",
        "destination": "text", "destination_id": "uuid", "deduplicates": "boolean", "reference": "text", "slot": "text",
        "data": "jsonb", "identity_key": "text", "request_hash": "text", "start_wall": "text", "rule": "text",
        "extra": "text[]", "left_out": "text[]", "zone": "text", "follows_user": "boolean", "catch_up": "text",
        "max_lateness": "float8",
    },
)  # fmt: skip

EXISTING = Statement(
    "series_existing",
    "SELECT id::text, encode(request_hash, 'hex') FROM {s}.series WHERE identity_key = decode(:identity_key, 'hex')",
    {"identity_key": "text"},
)


@dataclass(frozen=True, slots=True)
class Series:
    """A series as it stands. Instants are UTC, times without an instant are naive wall times, lateness is in seconds.

    `zone` is its own; `planned_zone` the one that its occurrences were last planned by. `planned_until` is the instant up
    to which every turn is decided; `plan_at` when the planner looks at it next, `fault` why it could not be planned.
    """

    id: UUID
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    destination: str = field(repr=False)
    destination_id: UUID
    deduplicates: bool
    reference: str | None
    slot: str
    data: str = field(repr=False)
    start: datetime
    rule: str | None
    extra: tuple[datetime, ...]
    left_out: tuple[datetime, ...]
    skipped: tuple[str, ...]
    zone: str
    follows_user: bool
    planned_zone: str
    catch_up: CatchUp
    max_lateness: float | None
    policy_lateness: float | None
    """The word of its kind or tenant, which holds where the series has none."""
    users_zone: str | None
    status: SeriesStatus
    version: int
    planned_until: datetime
    plan_at: datetime | None
    replan: bool
    fault: str | None
    created_at: datetime
    changed_at: datetime
    """The instant from which it is as it is now, but for the zone of the user that it follows."""
    now: datetime
    """The ledger's clock when this was read."""

    @property
    def effective_zone(self) -> str:
        """The zone in which it fires now."""
        return self.users_zone if self.follows_user and self.users_zone is not None else self.zone

    @property
    def zone_before(self) -> str:
        """The zone that it was planned in; where this release does not know that one, the zone in which it fires now."""
        return self.planned_zone if self.planned_zone in known_zones() else self.effective_zone

    def when(self) -> When:
        """When it fires. Raises `InvalidInput` if this release cannot read its rule or zone."""
        found = recurrence_of(self.start, self.effective_zone, self.rule, self.extra, self.left_out)
        lateness = self.policy_lateness if self.max_lateness is None else self.max_lateness
        return When(found, frozenset(self.skipped), self.catch_up, lateness)


def insert_series(run: Run, request: SeriesRequest, now: datetime | None) -> bool:
    """Write a new series, of which nothing is planned yet; whether its identity was free."""
    made = run(
        INSERT,
        now=now,
        id=str(request.id),
        tenant_id=request.tenant_id,
        user_id=request.user_id,
        kind=request.kind,
        channel=request.channel,
        reference=request.reference,
        slot=request.slot,
        identity_key=request.identity_key.hex(),
        request_hash=request.request_hash.hex(),
        **definition(request),
    )
    return bool(made)


def definition(request: SeriesRequest) -> dict[str, Any]:
    """What an edit may change, as the statements take it."""
    return {
        "destination": request.destination,
        "destination_id": str(request.destination_id),
        "deduplicates": request.deduplicates,
        "data": request.data,
        "start_wall": request.start.isoformat(),
        "rule": request.rule,
        "extra": [each.isoformat() for each in request.extra],
        "left_out": [each.isoformat() for each in request.left_out],
        "zone": request.zone,
        "follows_user": request.follows_user,
        "catch_up": request.catch_up,
        "max_lateness": request.max_lateness,
    }


def lock_series(run: Run, series_id: UUID, now: datetime | None = None) -> Series:
    """The series, locked until the transaction ends. Raises `NotFound`.

    Its `now` is the one instant of the call that locks it: all is decided as of then, however long the call waits for other
    locks afterwards. What comes due meanwhile is still to be decided when it commits, and the planner's.
    """
    found = lock_many(run, [series_id], now)
    return found[0] if found else one([], series_id)


def lock_many(run: Run, ids: Sequence[UUID], now: datetime | None = None) -> list[Series]:
    """Those of these series that exist, by id, locked until the transaction ends; all have one `now`."""
    return _locked(run, run(LOCK, now=now, ids=list(map(str, ids))), now)


def lock_due(run: Run, limit: int, now: datetime | None = None) -> list[Series]:
    """Up to `limit` series whose time has come and that nobody has locked, locked likewise."""
    return _locked(run, run(LOCK_DUE, now=now, limit=limit), now)


def clock(run: Run, now: datetime | None = None) -> datetime:
    """The ledger's clock in UTC, or `now` if a test gives it."""
    return run(CLOCK, now=now)[0][0].astimezone(UTC)  # type: ignore[no-any-return]


def _locked(run: Run, rows: Sequence[Row], now: datetime | None) -> list[Series]:
    """Locked rows, with the clock as it is after the locks: the one they were selected with may be older than what they say."""
    if not rows:
        return []
    at = clock(run, now)
    return [replace(read(row), now=at) for row in rows]


def get_series(run: Run, series_id: UUID, now: datetime | None = None) -> Series:
    """The series with this id. Raises `NotFound`."""
    return one(run(GET, now=now, id=str(series_id)), series_id)


def one(rows: Sequence[Row], series_id: UUID) -> Series:
    """The one row that an id has. Raises `NotFound`."""
    if not rows:
        raise NotFound(f"no series has the id {series_id}")
    return read(rows[0])


def read(row: Row) -> Series:
    """A row of this module's columns."""
    values: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in row]
    ids, times = (0, 6), (13, 14)
    for place in ids:
        values[place] = UUID(values[place])
    for place in times:
        values[place] = _times(values[place])
    values[11], values[15] = datetime.fromisoformat(values[11]), tuple(values[15])
    return Series(*values)


def _times(texts: Sequence[str]) -> tuple[datetime, ...]:
    return tuple(map(datetime.fromisoformat, texts))

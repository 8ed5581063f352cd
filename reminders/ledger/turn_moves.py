"""Giving turns under caps, in the ledger: under the caps' own locks, so that no two scanners give one out twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.domain.lanes import SEPARATOR
from reminders.domain.turns import SERVED_FOR, Cap, Turns, Waiting
from reminders.ledger.database import INDEXES_ONLY, LOOPS_ONLY, Database
from reminders.ledger.rate_rules import IN_FLIGHT, LAG, PER_SECOND, WAITS, instant_of, near
from reminders.ledger.statement import Statement

_T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

LOCK_RATES = Statement(
    "lock_rates",
    f"""
WITH {_T}
SELECT z.id::text, {PER_SECOND}, z.burst, extract(epoch FROM {near("z.next_at")})::float8,
       CASE WHEN z.concurrent IS NOT NULL THEN z.concurrent - {IN_FLIGHT} END,
       z.channel IS NOT NULL, extract(epoch FROM (SELECT now FROM t))::float8
FROM {{s}}.rates z WHERE z.id = ANY(:rates) AND z.removed_at IS NULL ORDER BY z.id FOR NO KEY UPDATE OF z
""",
    {"now": "timestamptz", "rates": "uuid[]"},
)

TAILS = Statement(
    "rate_tails",
    f"""
WITH {_T}
SELECT rate_id::text, tenant_id, CASE WHEN next_at > (SELECT now FROM t) THEN extract(epoch FROM {near("next_at")})::float8 END,
       CASE WHEN served_at IS NOT NULL THEN extract(epoch FROM {near("served_at")})::float8 END
FROM {{s}}.rate_tails
WHERE rate_id = ANY(:rates) AND (next_at > (SELECT now FROM t) OR served_at > (SELECT now FROM t) - interval '{SERVED_FOR} seconds')
""",
    {"now": "timestamptz", "rates": "uuid[]"},
)

KEEP_CLOCKS = Statement(
    "keep_clocks",
    f"""
WITH {_T}, clocks AS (
    UPDATE {{s}}.rates z SET next_at = {instant_of("g.next_at")}
    FROM unnest(:rates, :turns) AS g (id, next_at) WHERE z.id = g.id
), given AS MATERIALIZED (
    SELECT * FROM unnest(:tail_rates, :tail_tenants, :tail_ends, :tail_served) AS g (rate_id, tenant_id, next_at, served_at)
), kept AS (
    INSERT INTO {{s}}.rate_tails (rate_id, tenant_id, next_at, served_at)
    SELECT rate_id, tenant_id, COALESCE({instant_of("next_at")}, (SELECT now FROM t)), {instant_of("served_at")} FROM given
    ON CONFLICT (rate_id, tenant_id) DO UPDATE SET next_at = EXCLUDED.next_at, served_at = EXCLUDED.served_at
)
DELETE FROM {{s}}.rate_tails x
WHERE x.rate_id = ANY(:rates) AND x.next_at <= (SELECT now FROM t)
  AND (x.served_at IS NULL OR x.served_at <= (SELECT now FROM t) - interval '{SERVED_FOR} seconds')
  AND NOT EXISTS (SELECT 1 FROM given WHERE given.rate_id = x.rate_id AND given.tenant_id = x.tenant_id)
RETURNING 1
""",
    {
        "now": "timestamptz", "rates": "uuid[]", "turns": "float8[]",
        "tail_rates": "uuid[]", "tail_tenants": "text[]", "tail_ends": "float8[]", "tail_served": "float8[]",
    },
)  # fmt: skip

# The wait burns nothing. The first time anything is put off bounds all its waiting.
WAIT_FOR_TURNS = Statement(
    "wait_for_turns",
    f"""
WITH {_T}, given AS MATERIALIZED (
    SELECT * FROM unnest(:ids, :rates, :wakes, :sinces) AS g (id, rate_id, wake_at, since)
), mine AS MATERIALIZED (
    SELECT d.id, given.rate_id, given.since,
           LEAST(d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS give_up_at,
           LEAST({instant_of("given.wake_at")}, d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS wake_at
    FROM given JOIN {{s}}.due d ON d.id = given.id
    WHERE d.status = 'leased' AND d.lease_token = :token
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'pending', rate_id = mine.rate_id, wake_at = mine.wake_at, turn_at = mine.wake_at, give_up_at = mine.give_up_at,
    waits_since = {instant_of("mine.since")}
FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {
        "now": "timestamptz", "ids": "uuid[]", "rates": "uuid[]", "wakes": "float8[]", "sinces": "float8[]", "token": "uuid",
        "max_wait": "float8",
    },
)  # fmt: skip

NOBODY_TOOK = 0.25
"""Seconds after which a turn that nobody has taken is offered to those that wait longer."""

# What waits is found by the cap that it waits for, those that wait longest first. A rate is hurried only when it has had a turn
# to give for a moment that nobody took, nor is awake to take (reminders were cancelled): else each wakes by itself at its turn.
HURRY = Statement(
    "hurry",
    f"""
WITH RECURSIVE {_T}, walk AS (
    (SELECT d.rate_id FROM {{s}}.due d WHERE {WAITS} ORDER BY d.rate_id LIMIT 1)
    UNION ALL
    SELECT following.rate_id
    FROM walk CROSS JOIN LATERAL (
        SELECT d.rate_id FROM {{s}}.due d WHERE {WAITS} AND d.rate_id > walk.rate_id ORDER BY d.rate_id LIMIT 1
    ) following
), awake AS MATERIALIZED (
    SELECT head.rate_id, count(*) AS number
    FROM (SELECT d.* FROM {{s}}.due d WHERE d.wake_at <= (SELECT now FROM t) AND d.status <> 'sending' ORDER BY d.wake_at LIMIT :limit) head
    WHERE head.status = 'pending' AND head.turn_at = head.wake_at GROUP BY head.rate_id
), spare AS MATERIALIZED (
    SELECT z.id,
           CASE WHEN z.removed_at IS NOT NULL THEN :limit
                WHEN z.per_second IS NOT NULL AND z.next_at > (SELECT now FROM t) - interval '{NOBODY_TOOK} seconds' THEN 0
                ELSE GREATEST(0, LEAST(
                    :limit,
                    CASE WHEN z.concurrent IS NOT NULL THEN z.concurrent - {IN_FLIGHT} END,
                    CASE WHEN z.per_second IS NOT NULL
                         THEN 1 + floor({PER_SECOND} * LEAST({LAG}, extract(epoch FROM (SELECT now FROM t) - {near("z.next_at")})::float8)) END
                ) - COALESCE((SELECT awake.number FROM awake WHERE awake.rate_id = z.id), 0))::integer END AS number,
           CASE WHEN z.concurrent IS NOT NULL THEN 0
                ELSE GREATEST(0, extract(epoch FROM {near("z.next_at")} - (SELECT now FROM t))::float8) + {NOBODY_TOOK} END AS seconds
    FROM walk JOIN {{s}}.rates z ON z.id = walk.rate_id
), picked AS MATERIALIZED (
    SELECT waiting.id
    FROM spare CROSS JOIN LATERAL (
        SELECT d.id FROM {{s}}.due d
        WHERE d.rate_id = spare.id AND {WAITS} AND d.wake_at > (SELECT now FROM t)
        ORDER BY d.waits_since LIMIT spare.number
        FOR NO KEY UPDATE OF d SKIP LOCKED
    ) waiting
), woken AS (
    UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t), turn_at = (SELECT now FROM t) FROM picked WHERE d.id = picked.id
    RETURNING 1
)
SELECT (SELECT count(*) FROM woken), (SELECT min(seconds) FROM spare)
""",
    {"now": "timestamptz", "limit": "integer"},
)

# Nobody is called for it any more: it needs no turn, and must not stand before others that do.
WAKE_UNCALLED = Statement(
    "wake_uncalled",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now), mine AS MATERIALIZED (
    SELECT d.id FROM {{s}}.due d
    WHERE {WAITS} AND d.wake_at > (SELECT now FROM t) AND split_part(d.lane, chr({ord(SEPARATOR)}), 1) = ANY(:tenants)
    LIMIT :limit
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t) FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"tenants": "text[]", "limit": "integer"},
)
WAKE_BATCH = 500


@dataclass(frozen=True, slots=True)
class LeasedRow:
    """One leased row that a limit may concern, as `LIMITED` selects it."""

    id: str
    tenant_id: str
    destination_id: str
    turn_at: datetime | None
    waits_since: datetime | None
    caps: Sequence[str]
    timed_out: bool
    half_open: bool
    probe_id: str | None


def hurry(database: Database, limit: int, now: datetime | None) -> tuple[int, float | None]:
    """Wake up to `limit` rows of each cap that has turns to give: how many, and in how many seconds to ask again, if anything waits."""
    woken, seconds = database.fetch_in_loops(HURRY, now=now, limit=limit)[0]
    return woken, seconds


def wake_uncalled(database: Database, tenants: Sequence[str]) -> None:
    """Let what waits for turns wait no longer, since its tenant is off or in shadow."""
    while database.fetch_in_loops(WAKE_UNCALLED, tenants=list(tenants), limit=WAKE_BATCH):
        # Crash here: the others wake at their turns.
        continue


def without_turn(
    database: Database, rows: list[LeasedRow], woke: dict[str, datetime | None], given: dict[str, Any]
) -> set[str]:
    """The ids of those that get no turn now: they wait for it. `woke` is when each was due, by its id."""
    wanted = sorted({each for row in rows for each in row.caps})
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(INDEXES_ONLY + LOOPS_ONLY)

        def fetch(statement: Statement, **more: Any) -> list[tuple[Any, ...]]:
            bound = database.bound(statement)
            cursor.execute(bound.plain, bound.arguments({**given, **more}))
            return list(cursor.fetchall())

        return _give_turns(fetch, rows, woke, wanted)


def _give_turns(
    fetch: Callable[..., list[tuple[Any, ...]]],
    rows: list[LeasedRow],
    woke: dict[str, datetime | None],
    wanted: list[str],
) -> set[str]:
    locked = fetch(LOCK_RATES, rates=wanted)
    if not locked:
        return set()
    present = locked[0][6]
    caps = {UUID(row[0]): Cap(UUID(row[0]), row[1], row[2] or 1, row[3], row[4], row[5]) for row in locked}
    known = fetch(TAILS, rates=wanted)
    tails = {(UUID(rate), tenant): end for rate, tenant, end, _ in known if end is not None}
    served = {(UUID(rate), tenant): at for rate, tenant, _, at in known if at is not None}
    before = {key: (tails.get(key), served.get(key)) for key in {*tails, *served}}
    turns = Turns(present, caps, tails, served)
    waiting = [_waiting(row, woke.get(row.id), caps, present) for row in rows]
    turns.give(waiting)
    since = {one.id: one.since for one in waiting}
    if turns.put_off:
        fetch(
            WAIT_FOR_TURNS,
            ids=[str(each.id) for each in turns.put_off],
            rates=[str(each.rate_id) for each in turns.put_off],
            wakes=[each.wake_at for each in turns.put_off],
            sinces=[since[each.id] for each in turns.put_off],
        )
    after = {key: (tails.get(key), served.get(key)) for key in {*tails, *served}}
    moved = {key: kept for key, kept in after.items() if before.get(key) != kept}
    fetch(
        KEEP_CLOCKS,
        rates=[str(each) for each in caps],
        turns=[cap.next_at for cap in caps.values()],
        tail_rates=[str(rate) for rate, _ in moved],
        tail_tenants=[tenant for _, tenant in moved],
        tail_ends=[end for end, _ in moved.values()],
        tail_served=[at for _, at in moved.values()],
    )
    return {str(each.id) for each in turns.put_off}


def _waiting(row: LeasedRow, woke_at: datetime | None, caps: dict[UUID, Cap], present: float) -> Waiting:
    # What woke at its turn has waited since it was first put off; anything else is due since it woke.
    waited = row.turn_at is not None and row.turn_at == woke_at
    since = row.waits_since if waited else woke_at
    # A cap that was removed since holds up nothing.
    standing = [UUID(each) for each in row.caps if UUID(each) in caps]
    return Waiting(UUID(row.id), row.tenant_id, standing, since.timestamp() if since else present, waited)

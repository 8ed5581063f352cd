"""The scan's moves: look, lease, mark as published, take back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from reminders.ledger.database import Database, Row
from reminders.ledger.repairing import repair_transaction
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Look, Message, RepairMoves

# `(SELECT now FROM t)` is evaluated once per statement and may bound an index scan; `clock_timestamp()` itself may not.
_T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

LOOK = Statement(
    "look",
    f"""
WITH {_T}, flight AS (
    SELECT count(*) FILTER (WHERE status = 'published' AND wake_at > (SELECT now FROM t)) AS published,
           count(*) FILTER (WHERE status = 'sending' AND wake_at > (SELECT now FROM t)) AS sending,
           count(*) FILTER (WHERE status = 'sending' AND wake_at <= (SELECT now FROM t)) AS lapsed,
           count(*) FILTER (WHERE route = 'retry' AND wake_at > (SELECT now FROM t)) AS retrying
    FROM {{s}}.due WHERE status IN ('published', 'sending')
)
SELECT published, sending, lapsed, retrying,
       (SELECT count(*) FROM (SELECT 1 FROM {{s}}.due WHERE wake_at <= (SELECT now FROM t) AND status <> 'sending' LIMIT :limit) d),
       (SELECT extract(epoch FROM d.wake_at - (SELECT now FROM t))::float8
        FROM {{s}}.due d WHERE d.wake_at > (SELECT now FROM t) ORDER BY d.wake_at LIMIT 1)
FROM flight
""",
    {"now": "timestamptz", "limit": "integer"},
)

# The select stands in a materialised CTE: inside `id IN (...)` a nested-loop plan may run it again and lease more.
LEASE = Statement(
    "lease",
    f"""
WITH {_T}, picked AS MATERIALIZED (
    SELECT id, wake_at FROM {{s}}.due
    WHERE wake_at <= (SELECT now FROM t) AND status IN ('pending', 'leased', 'published')
      AND (:with_retries OR route <> 'retry')
    ORDER BY wake_at LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'leased', wake_at = (SELECT now FROM t) + make_interval(secs => :seconds), lease_token = :token
FROM picked WHERE d.id = picked.id
RETURNING d.id::text, d.delivery_key, d.route, d.lane, picked.wake_at
""",
    {"now": "timestamptz", "limit": "integer", "seconds": "float8", "token": "uuid", "with_retries": "boolean"},
)

LANES_WITH_DUE_WORK = Statement(
    "lanes_with_due_work",
    f"""
WITH RECURSIVE {_T}, walk AS (
    (SELECT lane, wake_at FROM {{s}}.due ORDER BY lane, wake_at LIMIT 1)
    UNION ALL
    SELECT following.lane, following.wake_at
    FROM walk CROSS JOIN LATERAL (
        SELECT d.lane, d.wake_at FROM {{s}}.due d WHERE d.lane > walk.lane ORDER BY d.lane, d.wake_at LIMIT 1
    ) following
)
SELECT lane FROM walk WHERE wake_at <= (SELECT now FROM t)
""",
    {"now": "timestamptz"},
)

LEASE_FROM_LANES = Statement(
    "lease_from_lanes",
    f"""
WITH {_T}, picked AS MATERIALIZED (
    SELECT head.id, head.wake_at
    FROM unnest(:lanes, :takes) AS l (lane, take)
    CROSS JOIN LATERAL (
        SELECT d.id, d.wake_at FROM {{s}}.due d
        WHERE d.lane = l.lane AND d.wake_at <= (SELECT now FROM t) AND d.status IN ('pending', 'leased', 'published')
          AND (:with_retries OR d.route <> 'retry')
        ORDER BY d.wake_at LIMIT l.take
        FOR NO KEY UPDATE SKIP LOCKED
    ) head
    LIMIT :limit
)
UPDATE {{s}}.due d
SET status = 'leased', wake_at = (SELECT now FROM t) + make_interval(secs => :seconds), lease_token = :token
FROM picked WHERE d.id = picked.id
RETURNING d.id::text, d.delivery_key, d.route, d.lane, picked.wake_at
""",
    {
        "now": "timestamptz",
        "lanes": "text[]",
        "takes": "integer[]",
        "limit": "integer",
        "seconds": "float8",
        "token": "uuid",
        "with_retries": "boolean",
    },
)

IN_FLIGHT_BY_LANE = Statement(
    "in_flight_by_lane",
    f"""
WITH {_T}
SELECT lane, count(*) FROM {{s}}.due
WHERE status IN ('published', 'sending') AND wake_at > (SELECT now FROM t) GROUP BY lane
""",
    {"now": "timestamptz"},
)

MARK_PUBLISHED_IF_LEASED = Statement(
    "mark_published",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'published', published_at = (SELECT now FROM t), wake_at = (SELECT now FROM t) + make_interval(secs => :deadline)
FROM mine WHERE d.id = mine.id
RETURNING d.id::text
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "deadline": "float8"},
)

TAKE_BACK_IF_PUBLISHED = Statement(
    "take_back",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'published' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'leased', wake_at = LEAST(d.wake_at, (SELECT now FROM t) + make_interval(secs => :seconds))
FROM mine WHERE d.id = mine.id
RETURNING d.id::text
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "seconds": "float8"},
)

SHORTEN_LEASE_IF_LEASED = Statement(
    "shorten_lease",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t) + make_interval(secs => :seconds)
FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "seconds": "float8"},
)

WAKE_LOST_MESSAGES = Statement(
    "wake_lost_messages",
    f"""
WITH {_T}, lost AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE status = 'published' AND wake_at > (SELECT now FROM t)
      AND published_at <= (SELECT now FROM t) - make_interval(secs => :older_than)
    ORDER BY published_at LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t) FROM lost WHERE d.id = lost.id
RETURNING 1
""",
    {"now": "timestamptz", "limit": "integer", "older_than": "float8"},
)

# Beat's ticks carry the time they were sent; one that waited longer than a period is dropped, and that is counted.
RECORD_TICK = Statement(
    "record_tick",
    """
INSERT INTO {s}.ticks AS t (name, last_at, taken, dropped)
VALUES ('scan_due', clock_timestamp(), :taken, :dropped)
ON CONFLICT (name) DO UPDATE SET last_at = EXCLUDED.last_at, taken = t.taken + EXCLUDED.taken, dropped = t.dropped + EXCLUDED.dropped
RETURNING 1
""",
    {"taken": "integer", "dropped": "integer"},
)


class PostgresScan:
    """`reminders.pipeline.ports.ScanLedger` on Postgres. `now` replaces the database's clock in tests."""

    def __init__(self, database: Database, now: datetime | None = None) -> None:
        self._db = database
        self._now = now

    def look(self, limit: int) -> Look:
        published, sending, lapsed, retrying, due, seconds = self._db.fetch(LOOK, now=self._now, limit=limit)[0]
        return Look(published, sending, due, lapsed, retrying, seconds)

    def lanes_with_due_work(self) -> list[str]:
        return [row[0] for row in self._db.fetch(LANES_WITH_DUE_WORK, now=self._now)]

    def in_flight_by_lane(self) -> dict[str, int]:
        return {row[0]: row[1] for row in self._db.fetch(IN_FLIGHT_BY_LANE, now=self._now)}

    def lease(self, limit: int, seconds: float, token: UUID, *, with_retries: bool = True) -> list[Message]:
        given = {"limit": limit, "seconds": seconds, "token": str(token), "with_retries": with_retries}
        return _in_turn(self._db.fetch(LEASE, now=self._now, **given))

    def lease_from_lanes(
        self, lanes: Sequence[tuple[str, int]], limit: int, seconds: float, token: UUID, *, with_retries: bool = True
    ) -> list[Message]:
        rows = self._db.fetch(
            LEASE_FROM_LANES,
            now=self._now,
            lanes=[lane for lane, _ in lanes],
            takes=[take for _, take in lanes],
            limit=limit,
            seconds=seconds,
            token=str(token),
            with_retries=with_retries,
        )
        return _in_turn(rows)

    def mark_published_if_leased(self, ids: Sequence[UUID], token: UUID, deadline: float) -> list[UUID]:
        rows = self._db.fetch(
            MARK_PUBLISHED_IF_LEASED, now=self._now, ids=_texts(ids), token=str(token), deadline=deadline
        )
        return [UUID(row[0]) for row in rows]

    def take_back_if_published(self, ids: Sequence[UUID], token: UUID, seconds: float) -> None:
        self._db.fetch(TAKE_BACK_IF_PUBLISHED, now=self._now, ids=_texts(ids), token=str(token), seconds=seconds)

    def shorten_lease_if_leased(self, ids: Sequence[UUID], token: UUID, seconds: float) -> None:
        self._db.fetch(SHORTEN_LEASE_IF_LEASED, now=self._now, ids=_texts(ids), token=str(token), seconds=seconds)

    def wake_lost_messages(self, limit: int, older_than: float) -> int:
        return len(self._db.fetch(WAKE_LOST_MESSAGES, now=self._now, limit=limit, older_than=older_than))

    def repair(self, limit: int) -> AbstractContextManager[RepairMoves]:
        return repair_transaction(self._db, limit, self._now)

    def record_tick(self, *, taken: int = 0, dropped: int = 0) -> None:
        self._db.fetch(RECORD_TICK, taken=taken, dropped=dropped)


def _texts(ids: Sequence[UUID]) -> list[str]:
    return [str(each) for each in ids]


def _in_turn(rows: list[Row]) -> list[Message]:
    """Messages in the order they go out: every lane's first, then every lane's second, each lane oldest first."""
    rows.sort(key=lambda row: row[4])
    turns: dict[str, int] = {}
    ranked = []
    for reminder_id, key, route, lane, wake_at in rows:
        turn = turns[lane] = turns.get(lane, -1) + 1
        ranked.append((turn, wake_at, Message(UUID(reminder_id), key, route)))
    ranked.sort(key=lambda entry: entry[:2])
    return [message for *_, message in ranked]

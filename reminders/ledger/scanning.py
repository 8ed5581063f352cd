"""The scan's moves: look, lease, mark as published, take back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from reminders.domain.slow_calls import SLOW_AFTER
from reminders.ledger.database import Database
from reminders.ledger.dispatchers import SAYS, SEEN
from reminders.ledger.draining import finish_drains
from reminders.ledger.ending import DEDUP_WINDOW, end_given_up
from reminders.ledger.leasing import IN_FLIGHT, LANES_WITH_DUE_WORK, LEASE, LEASE_FROM_LANES, SET_ASIDE, T, leased
from reminders.ledger.limiting import SLOW, within_limits
from reminders.ledger.noticing import look_for_news
from reminders.ledger.ownership import OWNS_LANE, SHARED
from reminders.ledger.planning import plan_due
from reminders.ledger.putting_off import MAX_WAIT
from reminders.ledger.rate_rules import WAITS
from reminders.ledger.releasing import release_held
from reminders.ledger.repairing import repair_transaction
from reminders.ledger.statement import Statement
from reminders.ledger.tenant_registry import ALONE, Dispatcher, register
from reminders.ledger.turn_moves import hurry
from reminders.pipeline.look import Look
from reminders.pipeline.ports import Leased, Message, RepairMoves
from reminders.pipeline.shares import InFlight
from reminders.settings import Settings

LOOK = Statement(
    "look",
    f"""
WITH {T}, flight AS (
    SELECT count(*) FILTER (WHERE status = 'published' AND wake_at > (SELECT now FROM t)) AS published,
           count(*) FILTER (WHERE status = 'sending' AND wake_at > (SELECT now FROM t)) AS sending,
           count(*) FILTER (WHERE status = 'sending' AND wake_at <= (SELECT now FROM t)) AS lapsed,
           count(*) FILTER (WHERE {SLOW}) AS slow,
           count(*) FILTER (WHERE route = 'retry' AND wake_at > (SELECT now FROM t)) AS retrying
    FROM {{s}}.due WHERE status IN ('published', 'sending')
)
SELECT published, sending, lapsed, slow, retrying,
       (SELECT count(*) FROM (SELECT 1 FROM {{s}}.due WHERE wake_at <= (SELECT now FROM t) AND status <> 'sending' LIMIT :limit) d),
       EXISTS (SELECT 1 FROM {{s}}.due WHERE give_up_at <= (SELECT now FROM t) AND status <> 'sending'),
       (SELECT extract(epoch FROM d.wake_at - (SELECT now FROM t))::float8
        FROM {{s}}.due d WHERE d.wake_at > (SELECT now FROM t) ORDER BY d.wake_at LIMIT 1),
       EXISTS (SELECT 1 FROM {{s}}.rates WHERE removed_at IS NULL) OR EXISTS (SELECT 1 FROM {{s}}.due d WHERE {WAITS})
       OR EXISTS (SELECT 1 FROM {{s}}.destinations WHERE timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL),
       {SHARED}
FROM flight
""",
    {"now": "timestamptz", "limit": "integer", "young": "float8", "dispatcher": "text"},
)

# Only where a ledger is shared: whose every row in flight is, and every row at the head of the index.
LOOK_AT_OWN = Statement(
    "look_at_own",
    f"""
WITH {T}, flight AS (
    SELECT count(*) FILTER (WHERE status = 'published' AND wake_at > (SELECT now FROM t)) AS published,
           count(*) FILTER (WHERE status = 'sending' AND wake_at > (SELECT now FROM t)) AS sending,
           count(*) FILTER (WHERE {SLOW}) AS slow,
           count(*) FILTER (WHERE route = 'retry' AND wake_at > (SELECT now FROM t)) AS retrying
    FROM {{s}}.due d WHERE status IN ('published', 'sending') AND {OWNS_LANE}
), head AS MATERIALIZED (
    SELECT {OWNS_LANE} AS own
    FROM (SELECT lane FROM {{s}}.due WHERE wake_at <= (SELECT now FROM t) AND status <> 'sending' ORDER BY wake_at LIMIT :limit) d
)
SELECT published, sending, slow, retrying, (SELECT count(*) FROM head WHERE own), (SELECT count(*) FROM head WHERE NOT own)
FROM flight
""",
    {"now": "timestamptz", "limit": "integer", "young": "float8", "dispatcher": "text"},
)

MARK_PUBLISHED_IF_LEASED = Statement(
    "mark_published",
    f"""
WITH {T}, mine AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'published', published_at = (SELECT now FROM t),
    wake_at = LEAST((SELECT now FROM t) + make_interval(secs => :deadline), d.give_up_at)
FROM mine WHERE d.id = mine.id
RETURNING d.id::text
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "deadline": "float8"},
)

TAKE_BACK_IF_PUBLISHED = Statement(
    "take_back",
    f"""
WITH {T}, mine AS MATERIALIZED (
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
WITH {T}, mine AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d SET wake_at = LEAST((SELECT now FROM t) + make_interval(secs => :seconds), d.give_up_at)
FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "seconds": "float8"},
)

WAKE_LOST_MESSAGES = Statement(
    "wake_lost_messages",
    f"""
WITH {T}, lost AS MATERIALIZED (
    SELECT id FROM {{s}}.due d
    WHERE status = 'published' AND wake_at > (SELECT now FROM t)
      AND published_at <= (SELECT now FROM t) - make_interval(secs => :older_than) AND (NOT (SELECT {SHARED}) OR {OWNS_LANE})
    ORDER BY published_at LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t) FROM lost WHERE d.id = lost.id
RETURNING 1
""",
    {"now": "timestamptz", "limit": "integer", "older_than": "float8", "dispatcher": "text"},
)

# A tick that waited longer than a period is dropped, and that is counted. What a scanner sends itself while no tick
# comes has a row of its own: the other one tells whether beat lives.
RECORD_TICK = Statement(
    "record_tick",
    f"""
WITH seen AS ({SEEN})
INSERT INTO {{s}}.ticks AS t (name, last_at, taken, dropped)
VALUES (:name, clock_timestamp(), :taken, :dropped)
ON CONFLICT (name) DO UPDATE SET last_at = EXCLUDED.last_at, taken = t.taken + EXCLUDED.taken, dropped = t.dropped + EXCLUDED.dropped
RETURNING 1
""",
    {"name": "text", "taken": "integer", "dropped": "integer", **SAYS},
)


class PostgresScan:
    """`reminders.pipeline.ports.ScanLedger` on Postgres.

    `window` is the seconds for which destinations that deduplicate remember a key, `max_wait` those for which a reminder
    may be put off in all, `claim` those for which a claim lasts; it looks after the tenants of `dispatcher`. `now` replaces
    the database's clock in tests.
    """

    def __init__(
        self,
        database: Database,
        now: datetime | None = None,
        *,
        window: float = DEDUP_WINDOW,
        max_wait: float = MAX_WAIT,
        claim: float = Settings.claim,
        dispatcher: Dispatcher = ALONE,
    ) -> None:
        self._db = database
        self._dispatcher = dispatcher
        self._me = {"dispatcher": dispatcher.dispatcher}
        self._now = now
        self._window = window
        self._max_wait = max_wait
        self._young = claim - SLOW_AFTER
        self._claim = claim

    def look(self, limit: int) -> Look:
        given = {"now": self._now, "limit": limit, "young": self._young, **self._me}
        row = self._db.fetch(LOOK, **given)[0]
        published, sending, lapsed, slow, retrying, due, given_up, seconds, limited, shared = row
        if not shared:
            return Look(published, sending, due, lapsed, given_up, retrying, seconds, limited, slow=slow)
        published, sending, slow, retrying, own, others = self._db.fetch(LOOK_AT_OWN, **given)[0]
        crowded_out = others > 0 and own + others >= limit
        return Look(published, sending, own, lapsed, given_up, retrying, seconds, limited, others, crowded_out, slow)

    def register_tenants(self, tenants: Iterable[str]) -> None:
        register(self._db, tenants, self._dispatcher)

    def lanes_with_due_work(self) -> list[str]:
        return [row[0] for row in self._db.fetch(LANES_WITH_DUE_WORK, now=self._now, **self._me)]

    def in_flight(self, destinations: Sequence[UUID]) -> InFlight:
        rows = self._db.fetch(IN_FLIGHT, now=self._now, destinations=_texts(destinations))
        return InFlight(
            {lane: number for lane, _, number in rows if lane is not None},
            {UUID(destination): number for _, destination, number in rows if destination is not None},
        )

    def lease(self, limit: int, seconds: float, token: UUID, *, with_retries: bool = True) -> Leased:
        given = {"limit": limit, "seconds": seconds, "token": str(token), "with_retries": with_retries}
        rows = self._db.fetch(LEASE, now=self._now, max_wait=self._max_wait, **given, **self._me)
        return leased(rows)

    def lease_from_lanes(
        self,
        lanes: Sequence[tuple[str, int]],
        limit: int,
        seconds: float,
        token: UUID,
        *,
        cap: int | None = None,
        with_retries: bool = True,
    ) -> Leased:
        rows = self._db.fetch(
            LEASE_FROM_LANES,
            now=self._now,
            lanes=[lane for lane, _ in lanes],
            takes=[take for _, take in lanes],
            limit=limit,
            seconds=seconds,
            token=str(token),
            cap=cap,
            max_wait=self._max_wait,
            with_retries=with_retries,
        )
        return leased(rows, limit, [lane for lane, _ in lanes])

    def set_aside(self, passed_over: Sequence[tuple[str, UUID]], limit: int, *, with_retries: bool = True) -> int:
        rows = self._db.fetch(
            SET_ASIDE,
            now=self._now,
            lanes=[lane for lane, _ in passed_over],
            destinations=[str(destination) for _, destination in passed_over],
            limit=limit,
            with_retries=with_retries,
        )
        return len(rows)

    def within_limits(self, messages: Sequence[Message], token: UUID, *, crowded: bool = False) -> list[Message]:
        young = self._young if crowded else None
        return within_limits(self._db, messages, token, now=self._now, max_wait=self._max_wait, young=young)

    def hurry(self, limit: int) -> tuple[int, float | None]:
        return hurry(self._db, limit, self._now)

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
        return len(self._db.fetch(WAKE_LOST_MESSAGES, now=self._now, limit=limit, older_than=older_than, **self._me))

    def end_given_up(self, limit: int) -> list[str]:
        return end_given_up(self._db, limit, self._window, self._now)

    def release_held(self, limit: int) -> int:
        found = release_held(self._db, limit, self._now, self._dispatcher.dispatcher)
        finish_drains(self._db, self._now)
        return found

    def plan_due(self, limit: int) -> int:
        return plan_due(self._db, limit, self._now)

    def repair(self, limit: int) -> AbstractContextManager[RepairMoves]:
        return repair_transaction(self._db, limit, self._now)

    def look_for_news(self, silence: float | None) -> None:
        """Write the notices that are due; see `look_for_news`."""
        look_for_news(self._db, silence=silence, now=self._now)

    def record_tick(self, *, taken: int = 0, dropped: int = 0, by_beat: bool = True) -> None:
        """Count wake-ups: beat's, or those that a scanner sent itself; and note that its dispatcher runs."""
        given = {"taken": taken, "dropped": dropped, "claim": self._claim, **self._me}
        self._db.fetch(RECORD_TICK, name="scan_due" if by_beat else "watch", **given)


def _texts(ids: Sequence[UUID]) -> list[str]:
    return [str(each) for each in ids]

"""Claims that ended without their worker: one transaction that locks them, and the moves that put them right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.domain.retry_policy import LetterKind
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Lapsed

# The moves that follow write both rows, so both are locked here or skipped: one application that holds a reminder's row
# must not stop the scan. A delivery that is no longer `sending` was finalized alone, while an application held the reminder's row.
LOCK_LAPSED = Statement(
    "lock_lapsed",
    """
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, d.alone_deaths, d.route, d.cancel_requested_at
    FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
    WHERE d.status = 'sending' AND d.wake_at <= (SELECT now FROM t)
    ORDER BY d.wake_at LIMIT :limit
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
)
SELECT h.id::text, h.delivery_key, n.claim_number, n.status, n.on_unknown, h.attempts, h.alone_deaths, h.route,
       h.cancel_requested_at IS NOT NULL,
       COALESCE(extract(epoch FROM (SELECT now FROM t) - n.budget_started_at - COALESCE(n.held_for, '0')), 0)::float8,
       COALESCE(extract(epoch FROM n.retry_at - (SELECT now FROM t)), 0)::float8,
       n.letter_kind, n.confirmed_late_at IS NOT NULL, s.worker IS NOT NULL
FROM held h JOIN {s}.notification_deliveries n ON n.delivery_key = h.delivery_key
LEFT JOIN {s}.shutdowns s ON s.worker = n.worker
""",
    {"now": "timestamptz", "limit": "integer"},
)

# `excused` are the keys whose worker had been told to stop: nothing is held against them.
_RECORD_LOST = """attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision, ready_at)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, 'unknown',
           CASE WHEN delivery_key = ANY(:excused) THEN 'worker_shut_down' ELSE 'worker_lost' END,
           CASE WHEN delivery_key = ANY(:excused) THEN 'the worker was shut down before it recorded an outcome'
                ELSE 'the worker ended before it recorded an outcome' END,
           :decision, (SELECT d.ready_at FROM {s}.due d WHERE d.id = delivery.reminder_id)
    FROM delivery
    ON CONFLICT (delivery_key, claim_number, claimed_at) DO NOTHING
)"""

_T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

TURN = 1.0
"""Seconds between two reminders of one destination that go alone, so that the others' do not wait behind all of them."""

REPEAT_IF_SENDING = Statement(
    "repair_repeat",
    f"""
WITH {_T}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = (SELECT now FROM t), uncertain_since = COALESCE(n.uncertain_since, n.claimed_at)
    WHERE n.delivery_key = ANY(:keys) AND n.status = 'sending'
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_RECORD_LOST}, noted AS (
    UPDATE {{s}}.reminders r SET last_outcome = 'unknown' FROM delivery WHERE r.id = delivery.reminder_id
), deaths AS (
    SELECT reminder_id, CASE WHEN delivery_key = ANY(:excused) THEN 0 ELSE 1 END AS count FROM delivery
), turns AS (
    SELECT deaths.*, count * (row_number() OVER (PARTITION BY count, d.destination_id ORDER BY d.wake_at) - 1) AS turn
    FROM deaths JOIN {{s}}.due d ON d.id = deaths.reminder_id
)
UPDATE {{s}}.due d
SET status = 'pending', attempts = d.attempts + turns.count,
    wake_at = LEAST((SELECT now FROM t) + turns.turn * interval '{TURN} seconds', d.give_up_at),
    alone_deaths = d.alone_deaths + CASE WHEN d.route = 'alone' THEN turns.count ELSE 0 END,
    route = CASE turns.count WHEN 0 THEN d.route ELSE 'alone' END
FROM turns WHERE d.id = turns.reminder_id
RETURNING 1
""",
    {"now": "timestamptz", "keys": "text[]", "excused": "text[]", "decision": "text"},
)

BURY = Statement(
    "repair_bury",
    f"""
WITH {_T}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE :letter WHEN 'unknown' THEN 'unknown' ELSE 'dead' END, letter_kind = :letter,
        uncertain_since = COALESCE(n.uncertain_since, n.claimed_at), finished_at = (SELECT now FROM t)
    WHERE n.delivery_key = ANY(:keys) AND n.status = 'sending'
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_RECORD_LOST}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id RETURNING due.id, due.attempts
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT l.letter_id, gone.id, l.key, :letter,
           CASE WHEN l.key = ANY(:excused) THEN 'worker_shut_down' ELSE 'worker_lost' END, :reason,
           gone.attempts + CASE WHEN l.key = ANY(:excused) THEN 0 ELSE 1 END
    FROM unnest(:letter_ids, :keys) AS l (letter_id, key)
    JOIN delivery ON delivery.delivery_key = l.key JOIN gone ON gone.id = delivery.reminder_id
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
)
UPDATE {{s}}.reminders r SET status = 'dead', last_outcome = 'unknown', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 1
""",
    {
        "now": "timestamptz", "keys": "text[]", "excused": "text[]", "letter": "text", "letter_ids": "uuid[]", "reason": "text",
        "decision": "text",
    },
)  # fmt: skip

# Without an attempt on record the claim was given back: nothing is burnt, nor if it was blocked. A requested cancellation counts here as it
# would have in finalize: it turns what may be tried again, or was refused, into `cancelled`.
CARRY_OVER = Statement(
    "repair_carry_over",
    f"""
WITH {_T}, delivery AS MATERIALIZED (
    SELECT n.delivery_key, n.reminder_id, n.retry_at, n.letter_kind, d.attempts, r.expires_at, a.outcome, a.error_class, a.reason,
           CASE WHEN a.outcome IS NULL OR a.outcome = 'blocked' THEN 0 ELSE 1 END AS burnt,
           CASE WHEN n.status IN ('retrying', 'dead') AND d.cancel_requested_at IS NOT NULL
                THEN CASE WHEN n.uncertain_since IS NULL THEN 'cancelled' ELSE 'unknown' END
                ELSE n.status END AS status
    FROM {{s}}.notification_deliveries n
    JOIN {{s}}.due d ON d.id = n.reminder_id
    JOIN {{s}}.reminders r ON r.id = n.reminder_id
    LEFT JOIN {{s}}.delivery_attempts a
           ON a.delivery_key = n.delivery_key AND a.claim_number = n.claim_number AND a.claimed_at = n.claimed_at
    WHERE n.delivery_key = ANY(:keys) AND n.status <> 'sending'
), ended AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = delivery.status, finished_at = (SELECT now FROM t),
        letter_kind = CASE delivery.status WHEN 'unknown' THEN 'unknown' END
    FROM delivery WHERE n.delivery_key = delivery.delivery_key AND n.status <> delivery.status
), gone AS (
    DELETE FROM {{s}}.due d USING delivery WHERE d.id = delivery.reminder_id AND delivery.status <> 'retrying'
), woken AS (
    UPDATE {{s}}.due d
    SET status = 'pending', wake_at = LEAST(GREATEST(delivery.retry_at, (SELECT now FROM t)), delivery.expires_at, d.give_up_at),
        attempts = d.attempts + delivery.burnt,
        alone_deaths = CASE WHEN delivery.outcome IS NULL THEN d.alone_deaths ELSE 0 END,
        route = CASE WHEN delivery.outcome IS NULL THEN d.route ELSE 'deliver' END
    FROM delivery WHERE d.id = delivery.reminder_id AND delivery.status = 'retrying'
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT l.letter_id, delivery.reminder_id, l.key, COALESCE(delivery.letter_kind, 'unknown'),
           COALESCE(delivery.error_class, 'cancelled_while_uncertain'), COALESCE(delivery.reason, 'cancelled while uncertain'),
           delivery.attempts + delivery.burnt
    FROM unnest(:letter_ids, :keys) AS l (letter_id, key)
    JOIN delivery ON delivery.delivery_key = l.key
    WHERE delivery.status IN ('dead', 'unknown')
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
)
UPDATE {{s}}.reminders r
SET status = CASE delivery.status WHEN 'retrying' THEN r.status WHEN 'unknown' THEN 'dead' ELSE delivery.status END,
    finished_at = CASE WHEN delivery.status <> 'retrying' THEN (SELECT now FROM t) END,
    last_outcome = CASE delivery.status WHEN 'delivered' THEN 'delivered' ELSE COALESCE(delivery.outcome, r.last_outcome) END
FROM delivery
WHERE r.id = delivery.reminder_id
RETURNING 1
""",
    {"now": "timestamptz", "keys": "text[]", "letter_ids": "uuid[]"},
)

CONFIRMED_LATE = Statement(
    "repair_confirmed_late",
    f"""
WITH {_T}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, letter_kind = NULL, finished_at = (SELECT now FROM t)
    WHERE n.delivery_key = ANY(:keys) AND n.status <> 'delivered' AND n.confirmed_late_at IS NOT NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_RECORD_LOST}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
)
UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 1
""",
    {"now": "timestamptz", "keys": "text[]", "excused": "text[]", "decision": "text"},
)


class PostgresRepair:
    """`reminders.pipeline.ports.RepairMoves` inside one open transaction."""

    def __init__(self, fetch: Callable[..., list[tuple[Any, ...]]], limit: int) -> None:
        self._fetch = fetch
        self.lapsed = [_lapsed(row) for row in fetch(LOCK_LAPSED, limit=limit)]

    def repeat(self, rows: Sequence[Lapsed]) -> None:
        for excused, decision in ((False, "repeat under the same key, alone"), (True, "repeat under the same key")):
            if chosen := [row for row in rows if row.shut_down == excused]:
                self._fetch(REPEAT_IF_SENDING, keys=_keys(chosen), excused=_excused(chosen), decision=decision)

    def look_up(self, rows: Sequence[Lapsed]) -> None:
        self._fetch(REPEAT_IF_SENDING, keys=_keys(rows), decision="look the key up, alone")

    def bury(self, rows: Sequence[Lapsed], kind: LetterKind, reason: str) -> None:
        self._fetch(
            BURY,
            keys=_keys(rows),
            excused=_excused(rows),
            letter=kind,
            letter_ids=_new_ids(rows),
            reason=reason,
            decision=f"dead letter: {kind}",
        )

    def carry_over(self, rows: Sequence[Lapsed]) -> None:
        self._fetch(CARRY_OVER, keys=_keys(rows), letter_ids=_new_ids(rows))

    def confirm_late(self, rows: Sequence[Lapsed]) -> None:
        decision = "delivered: an earlier attempt reported it late"
        self._fetch(CONFIRMED_LATE, keys=_keys(rows), excused=_excused(rows), decision=decision)


@contextmanager
def repair_transaction(database: Database, limit: int, now: datetime | None) -> Iterator[PostgresRepair]:
    """Lock up to `limit` lapsed claims, skipping those somebody works on, and commit what the block does with them."""
    with database.transaction() as connection:

        def fetch(statement: Statement, **given: Any) -> list[tuple[Any, ...]]:
            bound = database.bound(statement)
            with connection.cursor() as cursor:
                cursor.execute(bound.plain, bound.arguments({"now": now, **given}))
                return list(cursor.fetchall())

        yield PostgresRepair(fetch, limit)


def _lapsed(row: tuple[Any, ...]) -> Lapsed:
    return Lapsed(UUID(row[0]), *row[1:])


def _keys(rows: Sequence[Lapsed]) -> list[str]:
    return [row.delivery_key for row in rows]


def _excused(rows: Sequence[Lapsed]) -> list[str]:
    return [row.delivery_key for row in rows if row.shut_down]


def _new_ids(rows: Sequence[Lapsed]) -> list[str]:
    return [str(uuid7()) for _ in rows]

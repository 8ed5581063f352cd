"""What is on record of each delivery key: the calls that can have arrived, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from reminders.domain.sending_proof import CallsOnRecord, SentVerdict, judge, judge_all
from reminders.ledger.bounded_look import looking
from reminders.ledger.database import Database, Row
from reminders.ledger.statement import Statement

MOST = 20_000
"""Attempts of a window, or reminders of a user, that are looked at; the newest first."""

_OF_REMINDER = "SELECT n.reminder_id FROM {s}.notification_deliveries n WHERE n.reminder_id = :id LIMIT 1"

_OF_USER = """SELECT r.id AS reminder_id FROM {s}.reminders r
    WHERE r.tenant_id = :tenant AND r.user_id = :user ORDER BY r.id DESC LIMIT :most"""

# A second call has a later number, or another version's key.
_OF_WINDOW = """SELECT DISTINCT c.reminder_id FROM (
        SELECT a.reminder_id, a.claim_number, a.outcome FROM {s}.delivery_attempts a
        WHERE a.recorded_at >= :since AND a.recorded_at <= :until ORDER BY a.recorded_at DESC LIMIT :most) c
    JOIN {s}.reminders r ON r.id = c.reminder_id
    WHERE c.outcome IN ('delivered', 'unknown') AND (c.claim_number > 1 OR r.version > 1)
      AND (:tenant IS NULL OR r.tenant_id = :tenant)"""

_CALLS = """
WITH chosen AS MATERIALIZED ({chosen})
SELECT r.id::text, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, n.delivery_key, n.status, n.on_unknown = 'repeat',
       a.confirmed, a.unknown, a.found OR COALESCE(l.delivered, false), a.absent OR COALESCE(l.not_sent, false), n.status = 'sending',
       a.calls + (n.status = 'sending')::integer, COALESCE(a.first_at, n.claimed_at), GREATEST(a.last_at, n.claimed_at), a.confirmed_at, encode(n.body_hash, 'hex'), n.provider_reference, l.actor
FROM chosen JOIN {{s}}.reminders r ON r.id = chosen.reminder_id
JOIN {{s}}.notification_deliveries n ON n.reminder_id = r.id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT asks) AS calls,
           count(*) FILTER (WHERE outcome = 'delivered' AND NOT asks) AS confirmed,
           count(*) FILTER (WHERE outcome = 'unknown' AND NOT asks) AS unknown,
           COALESCE(bool_or(outcome = 'delivered' AND asks), false) AS found,
           COALESCE(bool_or(error_class = 'looked_up_absent'), false) AS absent,
           min(claimed_at) AS first_at, max(claimed_at) AS last_at, min(recorded_at) FILTER (WHERE outcome = 'delivered') AS confirmed_at
    FROM (SELECT *, decision LIKE 'look-up: %' AS asks FROM {{s}}.delivery_attempts WHERE delivery_key = n.delivery_key) x
) a
LEFT JOIN LATERAL (
    SELECT bool_or(resolution = 'delivered') AS delivered, bool_or(checked OR resolution = 'not_sent') AS not_sent,
           (array_agg(actor ORDER BY closed_at DESC) FILTER (WHERE checked OR resolution IS NOT NULL))[1] AS actor
    FROM {{s}}.dead_letters WHERE reminder_id = r.id AND delivery_key = n.delivery_key
) l ON true
WHERE (a.first_at IS NOT NULL OR n.status = 'sending') AND (:since IS NULL OR n.claimed_at >= :since)
  AND (:until IS NULL OR COALESCE(a.first_at, n.claimed_at) <= :until)
ORDER BY r.id, a.first_at, n.delivery_key
"""
_TIMES = {"since": "timestamptz", "until": "timestamptz"}

OF_REMINDER = Statement("sendings_of_reminder", _CALLS.format(chosen=_OF_REMINDER), {"id": "uuid", **_TIMES})
OF_USER = Statement(
    "sendings_of_user",
    _CALLS.format(chosen=_OF_USER),
    {"tenant": "text", "user": "text", "most": "integer", **_TIMES},
)
OF_WINDOW = Statement(
    "sendings_of_window", _CALLS.format(chosen=_OF_WINDOW), {"tenant": "text", "most": "integer", **_TIMES}
)

# How much there is to look at, and from when on it is.
WINDOW = Statement(
    "sendings_window",
    """
SELECT count(*), count(DISTINCT delivery_key), min(recorded_at) FROM (
    SELECT a.delivery_key, a.recorded_at FROM {s}.delivery_attempts a
    WHERE a.recorded_at >= :since AND a.recorded_at <= :until ORDER BY a.recorded_at DESC LIMIT :most) c
""",
    {**_TIMES, "most": "integer"},
)


@dataclass(frozen=True, slots=True)
class Sending:
    """What is on record of one key. Instants are UTC, by the ledger's clock."""

    delivery_key: str
    status: str
    calls: CallsOnRecord
    attempts: int
    """Calls in all, those that surely did not arrive and the one that is under way included."""
    first_at: datetime
    last_at: datetime
    confirmed_at: datetime | None
    body_sha256: str | None
    """Of the body that every attempt has carried; None before one had a body."""
    provider_reference: str | None
    by: str | None
    """Who has said last whether it was sent, if anybody."""

    @property
    def verdict(self) -> SentVerdict:
        return judge(self.calls)


@dataclass(frozen=True, slots=True)
class Sent:
    """A reminder, and what is on record of each key it has had, the first one first."""

    reminder_id: UUID
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    reference: str | None
    slot: str
    sendings: list[Sending]

    @property
    def verdict(self) -> SentVerdict:
        return judge_all([each.calls for each in self.sendings])


@dataclass(frozen=True, slots=True)
class Window:
    """What was looked at: attempts and keys that were recorded from `since` on; later than was asked where there are too many."""

    since: datetime
    until: datetime
    attempts: int
    keys: int
    complete: bool


def sent_of(database: Database, reminder_id: UUID) -> Sent | None:
    """All that is on record of one reminder; None where no attempt is."""
    return next(iter(_sent(database, OF_REMINDER, id=str(reminder_id))), None)


def sent_to(
    database: Database, tenant: str, user: str, *, since: datetime | None = None, until: datetime | None = None
) -> list[Sent]:
    """The same of a user's reminders that were called for, the latest `MOST` of them, in the order they were scheduled."""
    return _sent(database, OF_USER, tenant=tenant, user=user, since=since, until=until, most=MOST)


def sent_again(
    database: Database, *, since: datetime, until: datetime, tenant: str | None = None, most: int = MOST
) -> tuple[Window, list[Sent]]:
    """What was called for in a window of time, and more than once where an earlier call can have arrived."""
    with looking(database) as ask:
        ((attempts, keys, oldest),) = ask(WINDOW, since=since, until=until, most=most)
        rows = ask(OF_WINDOW, since=since, until=until, tenant=tenant, most=most)
    complete = attempts < most
    window = Window(since if complete else oldest.astimezone(UTC), until, attempts, keys, complete)
    found = [each for each in _by_reminder(rows) if sum(key.calls.can_have_arrived for key in each.sendings) > 1]
    return window, found


def _sent(database: Database, statement: Statement, **given: Any) -> list[Sent]:
    with looking(database) as ask:
        return _by_reminder(ask(statement, **given))


def _by_reminder(rows: Iterable[Row]) -> list[Sent]:
    found = []
    for head, keys in groupby(rows, key=lambda row: row[:7]):
        columns: list[Any] = [UUID(head[0]), *head[1:], [_sending(row[7:]) for row in keys]]
        found.append(Sent(*columns))
    return found


def _sending(row: Row) -> Sending:
    key, status, deduplicates, confirmed, unknown, heard, absent, under_way, attempts, *rest = row
    calls = CallsOnRecord(confirmed, unknown, deduplicates, heard, absent, under_way)
    columns: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in rest]
    return Sending(key, status, calls, attempts, *columns)

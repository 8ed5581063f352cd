"""Writing reminders inside the caller's transaction. One statement for one row or a thousand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from json.encoder import encode_basestring as quoted
from uuid import UUID

import psycopg2

from reminders.domain.errors import Conflict
from reminders.domain.request import ReminderRequest
from reminders.ledger.background import BackgroundConnection
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.conflicts import conflicts, purged_conflict
from reminders.ledger.database import Row
from reminders.ledger.statement import Statement

# What is asked for without an expiry has that of its tenant's, or its tenant's kind's, word on lateness.
EXPIRY = """COALESCE(i.expires_at, i.due_at + make_interval(secs => (
               SELECT l.max_lateness FROM {s}.lateness_policies l WHERE l.tenant_id = i.tenant_id AND l.kind IN (i.kind, '')
               ORDER BY l.kind DESC LIMIT 1)))"""

# Nothing is written or locked that two different reminders share, their destination included: a caller waits only for
# another that schedules the same identity. Rows go in sorted by identity, so that two transactions that schedule the
# same reminders cannot deadlock. A conflict is skipped, never raised: the caller's transaction must stay usable. What was
# purged is not made again: one probe of its key for each row, whatever the planner thinks of the table.
INSERT = Statement(
    "schedule",
    f"""
WITH input AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows) AS i (
        id uuid, tenant_id text, user_id text, kind text, channel text, destination text, destination_id uuid,
        deduplicates boolean, reference text, slot text, data jsonb, due_at timestamptz, zone text, expires_at timestamptz,
        identity_key bytea, request_hash bytea, delivery_key text, series_id uuid, recurrence_id text)
), made AS (
    INSERT INTO {{s}}.reminders (id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference,
                               slot, data, due_at, zone, expires_at, identity_key, request_hash, delivery_key, series_id,
                               recurrence_id)
    SELECT id, tenant_id, user_id, kind, channel, destination, destination_id, deduplicates, reference,
           slot, data, due_at, zone, {EXPIRY}, identity_key, request_hash, delivery_key, series_id, recurrence_id
    FROM input i
    WHERE (SELECT k.reminder_id FROM {{s}}.keys_seen k WHERE k.identity_key = i.identity_key) IS NULL
    ORDER BY identity_key
    ON CONFLICT (identity_key) DO NOTHING
    RETURNING id, tenant_id, destination_id, due_at, expires_at, delivery_key
), woken AS (
    INSERT INTO {{s}}.due (id, lane, destination_id, wake_at, give_up_at, status, delivery_key)
    SELECT id, tenant_id, destination_id, due_at, expires_at, 'pending', delivery_key FROM made
)
SELECT id::text FROM made
""",
    {"rows": "json"},
)

# Of one that was purged, what is remembered of its end.
EXISTING = Statement(
    "schedule_existing",
    """
SELECT wanted.identity, encode(COALESCE(r.request_hash, k.request_hash), 'hex'), COALESCE(r.id, k.reminder_id)::text,
       COALESCE(r.delivery_key, k.delivery_key), COALESCE(r.due_at, k.due_at), COALESCE(d.status, r.status, k.status),
       COALESCE(r.version, k.version), r.id IS NULL
FROM unnest(:identities) AS wanted (identity)
LEFT JOIN {s}.reminders r ON r.identity_key = decode(wanted.identity, 'hex')
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.keys_seen k ON k.identity_key = decode(wanted.identity, 'hex')
WHERE r.id IS NOT NULL OR k.reminder_id IS NOT NULL
""",
    {"identities": "text[]"},
)


ROW_REFUSED: tuple[type[Exception], ...] = (psycopg2.DataError, psycopg2.IntegrityError)
"""Raised for a row that breaks a rule of the tables although it was checked. None of its batch was written."""


@dataclass(frozen=True, slots=True)
class ScheduledReminder:
    """A reminder as it stands in the ledger, or as it ended before it was purged.

    `created` is false when an earlier request had made it.
    """

    id: UUID
    delivery_key: str
    due_at: datetime
    status: str
    version: int
    created: bool


def insert(
    connection: CallersConnection, schema: str, requests: Sequence[ReminderRequest], deduplicates: Mapping[str, bool]
) -> list[ScheduledReminder | Conflict]:
    """Schedule all requests in the caller's transaction; the answers are in the order of the requests.

    A request whose identity exists with other content yields a `Conflict` value in its place; nothing is raised for
    it. `deduplicates` says for each channel whether its destinations are expected to deduplicate.
    """
    run = partial(fetch, connection, schema)
    others = _others(run, requests, run(INSERT, rows=encoded(requests, deduplicates)))
    return [others.get(position) or _created(request) for position, request in enumerate(requests)]


def encoded(requests: Sequence[ReminderRequest], deduplicates: Mapping[str, bool]) -> str:
    """Requests as the statement takes them."""
    return f"[{','.join([as_json(request, deduplicates[request.channel]) for request in requests])}]"


def start_insert(background: BackgroundConnection, rows: str) -> None:
    """Have requests, as `encoded` wrote them, scheduled in a transaction of their own. `finish_insert` must follow."""
    background.send(INSERT, rows=rows)


def finish_insert(
    background: BackgroundConnection, requests: Sequence[ReminderRequest]
) -> dict[int, ScheduledReminder | Conflict]:
    """Wait for the commit. The answers are by position in `requests`, and only those that were not created."""
    return _others(background.fetch, requests, background.result())


def _others(
    run: Callable[..., list[Row]], requests: Sequence[ReminderRequest], made: Sequence[Row]
) -> dict[int, ScheduledReminder | Conflict]:
    if len(made) == len(requests):
        return {}
    ids = {row[0] for row in made}
    others = {position: request for position, request in enumerate(requests) if str(request.id) not in ids}
    # A second statement, for its newer snapshot: the row may have been committed while the first one waited for it.
    found = {row[0]: row for row in run(EXISTING, identities=[r.identity_key.hex() for r in others.values()])}
    answers: dict[int, ScheduledReminder | Conflict] = {}
    otherwise: dict[int, tuple[ReminderRequest, str]] = {}
    for position, request in others.items():
        _, known_hash, known_id, key, due_at, status, version, purged = found[request.identity_key.hex()]
        if known_hash == request.request_hash.hex():
            answers[position] = ScheduledReminder(
                UUID(known_id), key, due_at.astimezone(UTC), status, version, created=False
            )
        elif purged:
            answers[position] = purged_conflict(request, known_id)
        else:
            otherwise[position] = request, known_id
    if otherwise:
        answers.update(zip(otherwise, conflicts(run, list(otherwise.values())), strict=True))
    return answers


def _created(request: ReminderRequest) -> ScheduledReminder:
    return ScheduledReminder(request.id, request.delivery_key, request.due_at, "pending", 1, created=True)


def as_json(request: ReminderRequest, deduplicates: bool) -> str:
    """One request as the statement takes it, as an element of a JSON list."""
    # Written out, since `json.dumps` of a dictionary takes twice as long, and an import does this a million times. What
    # is not `quoted` holds nothing that JSON would escape; `data` is JSON already.
    return (
        f'{{"id":"{request.id.hex}","tenant_id":{quoted(request.tenant_id)},"user_id":{quoted(request.user_id)}'
        f',"kind":{quoted(request.kind)},"channel":{quoted(request.channel)}'
        f',"destination":{quoted(request.destination)},"destination_id":"{request.destination_id.hex}"'
        f',"deduplicates":{"true" if deduplicates else "false"},"reference":{_optional(request.reference)}'
        f',"slot":{quoted(request.slot)},"data":{request.data},"due_at":"{request.due_at.isoformat()}"'
        f',"zone":{_optional(request.zone)}'
        f',"expires_at":{_optional(None if request.expires_at is None else request.expires_at.isoformat())}'
        f',"identity_key":"\\\\x{request.identity_key.hex()}","request_hash":"\\\\x{request.request_hash.hex()}"'
        f',"delivery_key":"{request.delivery_key}"{_of_series(request)}}}'
    )


def _of_series(request: ReminderRequest) -> str:
    if request.series_id is None:
        return ""
    return f',"series_id":"{request.series_id.hex}","recurrence_id":"{request.recurrence_id}"'


def _optional(text: str | None) -> str:
    return "null" if text is None else quoted(text)

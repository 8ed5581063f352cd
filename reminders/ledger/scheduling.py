"""Writing reminders inside the caller's transaction. One statement for one row or a thousand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from reminders.ledger.database import Row
from reminders.ledger.statement import Statement
from reminders.pipeline.trail import follow_scheduled, follows

# The function that SQL's `schedule` goes through as well; what it locks and in which order is said there.
INSERT = Statement("schedule", "SELECT id::text FROM {s}.schedule_rows(:rows) AS id", {"rows": "json"})

EXISTING = Statement(
    "schedule_existing",
    """
SELECT asked::text, conflict, reminder_id::text, delivery_key, due_at, status, version FROM {s}.scheduled_before(:rows)
""",
    {"rows": "json"},
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
    answers = [others.get(position) or _created(request) for position, request in enumerate(requests)]
    _follow(answers)
    return answers


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
    others = _others(background.fetch, requests, background.result())
    if follows():
        _follow(others.get(position) or _created(request) for position, request in enumerate(requests))
    return others


def _follow(answers: Iterable[ScheduledReminder | Conflict]) -> None:
    for each in answers if follows() else ():
        if isinstance(each, ScheduledReminder):
            follow_scheduled(each.id, each.delivery_key, created=each.created)


def _others(
    run: Callable[..., list[Row]], requests: Sequence[ReminderRequest], made: Sequence[Row]
) -> dict[int, ScheduledReminder | Conflict]:
    if len(made) == len(requests):
        return {}
    ids = {row[0] for row in made}
    others = {position: request for position, request in enumerate(requests) if str(request.id) not in ids}
    # A second statement, for its newer snapshot: the row may have been committed while the first one waited for it. What
    # it is asked for, it does not take from `deduplicates`.
    rows = f"[{','.join([as_json(request, True) for request in others.values()])}]"
    found = {row[0]: row[1:] for row in run(EXISTING, rows=rows)}
    return {position: _existing(found[str(request.id)]) for position, request in others.items()}


def _existing(row: Row) -> ScheduledReminder | Conflict:
    conflict, known_id, key, due_at, status, version = row
    if conflict is not None:
        return Conflict(conflict)
    return ScheduledReminder(UUID(known_id), key, due_at.astimezone(UTC), status, version, created=False)


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

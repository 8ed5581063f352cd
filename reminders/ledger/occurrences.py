"""Occurrences: the reminders that turns of a series have become. Made, moved by their series, withdrawn by it, and revived.

The series' row is locked before any of this, so that nobody else makes, moves or withdraws an occurrence of it meanwhile.
What a worker has claimed, what may have been sent and what has ended otherwise than by being withdrawn is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from reminders.calendar.recurrence import instant_of
from reminders.calendar.zones import known_zones
from reminders.domain.identity import delivery_key, request_hash, uuid7
from reminders.domain.request import ReminderRequest
from reminders.ledger import occurrence_moves
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.occurrence_identity import identity_of
from reminders.ledger.scheduling import INSERT, as_json
from reminders.ledger.series_rows import Series
from reminders.ledger.skip_records import forget_skips
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Planned

_OCCURRENCE = """r.id::text, r.series_id::text, r.recurrence_id, r.due_at, r.expires_at, r.zone, r.destination, r.data::text,
       r.status, d.status, r.moved_at IS NOT NULL, r.withdrawn_at IS NOT NULL, r.version, s.planned_zone"""

FIND = Statement(
    "occurrences_find",
    f"""
SELECT {_OCCURRENCE}
FROM unnest(:identities) AS wanted (identity)
JOIN {{s}}.reminders r ON r.identity_key = decode(wanted.identity, 'hex')
JOIN {{s}}.series s ON s.id = r.series_id
LEFT JOIN {{s}}.due d ON d.id = r.id
""",
    {"identities": "text[]"},
)

COMING = Statement(
    "occurrences_coming",
    f"""
SELECT {_OCCURRENCE}
FROM {{s}}.reminders r
JOIN {{s}}.series s ON s.id = r.series_id
LEFT JOIN {{s}}.due d ON d.id = r.id
WHERE r.series_id = ANY(:series) AND r.due_at > :after AND (r.status = 'live' OR r.withdrawn_at IS NOT NULL)
ORDER BY r.due_at
""",
    {"series": "uuid[]", "after": "timestamptz"},
)

LAST = Statement(
    "occurrences_last",
    """
SELECT r.series_id::text, r.recurrence_id
FROM unnest(:series, :due_at) AS last (series_id, due_at)
JOIN {s}.reminders r ON r.series_id = last.series_id AND r.due_at = last.due_at
WHERE r.moved_at IS NULL AND r.withdrawn_at IS NULL
""",
    {"series": "uuid[]", "due_at": "timestamptz[]"},
)

OPEN = Statement(
    "occurrences_open",
    "SELECT r.id::text FROM {s}.reminders r WHERE r.series_id = :series AND r.status = 'live' ORDER BY r.due_at, r.id",
    {"series": "uuid"},
)

# A statement of its own: the next one sees which of them a person has revived meanwhile.
LOCK_WITHDRAWN = Statement(
    "occurrences_lock_withdrawn",
    """
SELECT {s}.lock_rows(ARRAY(
    SELECT id FROM {s}.reminders WHERE series_id = :series AND due_at <= :until AND withdrawn_at IS NOT NULL))
""",
    {"series": "uuid", "until": "timestamptz"},
)

WITHDRAWN = Statement(
    "occurrences_withdrawn",
    """
SELECT recurrence_id, due_at, moved_at IS NOT NULL FROM {s}.reminders
WHERE series_id = :series AND due_at <= :until AND withdrawn_at IS NOT NULL
""",
    {"series": "uuid", "until": "timestamptz"},
)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A turn of a series as a reminder. `live` is its status in `due`; `withdrawn` says by its series.

    `moved` says by a person, to another time than the one that is its own.
    """

    id: UUID
    series_id: UUID
    recurrence_id: str
    due_at: datetime
    expires_at: datetime | None
    zone: str | None
    destination: str
    data: str
    status: str
    live: str | None
    moved: bool
    withdrawn: bool
    version: int


def make(connection: CallersConnection, schema: str, wanted: Sequence[tuple[Series, Planned]]) -> int:
    """Make the turns that are no reminders yet, and bring those that are to where their series has them; how many were made.

    A turn that a person has moved or cancelled, that has come due or has ended stays as it is.
    """
    if not wanted:
        return 0
    run = partial(fetch, connection, schema)
    requests = [request_of(series, planned) for series, planned in wanted]
    rows = [as_json(request, series.deduplicates) for request, (series, _) in zip(requests, wanted, strict=True)]
    made = {row[0] for row in run(INSERT, rows=f"[{','.join(rows)}]")}
    others = {
        request.identity_key: pair
        for request, pair in zip(requests, wanted, strict=True)
        if str(request.id) not in made
    }
    if others:
        standing = {
            (each.series_id, each.recurrence_id): each
            for each in map(_read, run(FIND, identities=[identity.hex() for identity in others]))
        }
        for series, planned in others.values():
            found = standing.get((series.id, planned.turn.recurrence_id))
            if found is not None and (found.withdrawn or (found.live is not None and found.due_at > series.now)):
                bring(connection, schema, series, found, planned)
    new = [
        (series.id, each.turn.recurrence_id)
        for request, (series, each) in zip(requests, wanted, strict=True)
        if str(request.id) in made
    ]
    forget_skips(connection, schema, new)
    return len(made)


def coming(connection: CallersConnection, schema: str, series: Sequence[Series]) -> dict[UUID, list[Occurrence]]:
    """Of each series what is due later than now, and is live or withdrawn. All must have been read at one time."""
    if not series:
        return {}
    found: dict[UUID, list[Occurrence]] = {each.id: [] for each in series}
    ids = [str(each.id) for each in series]
    for row in fetch(connection, schema, COMING, series=ids, after=min(each.now for each in series)):
        occurrence = _read(row)
        found[occurrence.series_id].append(occurrence)
    return found


def last_made(connection: CallersConnection, schema: str, series: Sequence[Series]) -> dict[UUID, str]:
    """Of each series the name of the turn that was planned last, as far as it has come due and nobody has moved it."""
    over = [each for each in series if each.planned_until <= each.now]
    if not over:
        return {}
    ids, times = [str(each.id) for each in over], [each.planned_until.isoformat() for each in over]
    return {UUID(id_): turn for id_, turn in fetch(connection, schema, LAST, series=ids, due_at=times)}


def bring(
    connection: CallersConnection, schema: str, series: Series, found: Occurrence, planned: Planned | None = None
) -> bool:
    """Bring an occurrence to where and as its series has it: alive, if it was withdrawn; whether anything changed.

    What a person has moved keeps its time, also if that was while this waited for it; so does everything without `planned`.
    """
    keeps = planned is None or (found.moved and not found.withdrawn)
    due_at = found.due_at if keeps or planned is None else planned.turn.at
    expires_at = found.expires_at if keeps or planned is None else planned.expires_at
    zone = found.zone if keeps else series.effective_zone
    same = (found.due_at, found.expires_at, found.zone, found.destination) == (
        due_at,
        expires_at,
        zone,
        series.destination,
    )
    if same and not found.withdrawn and json.loads(found.data) == json.loads(series.data):
        return False
    run = partial(fetch, connection, schema)
    standing = occurrence_moves.free(run, found.id)
    if standing is None:
        return False
    if standing.version != found.version:
        again = find(connection, schema, series, found.recurrence_id)
        return again is not None and bring(connection, schema, series, again, planned)
    content = {
        "destination": series.destination,
        "destination_id": str(series.destination_id),
        "deduplicates": series.deduplicates,
        "data": series.data,
    }
    keeps_time = found.moved and keeps
    brought = occurrence_moves.bring(
        run, standing, content, due_at=due_at, zone=zone, expires_at=expires_at, keeps_time=keeps_time
    )
    if brought and found.withdrawn:
        forget_skips(connection, schema, [(series.id, found.recurrence_id)])
    return brought


def withdraw(
    connection: CallersConnection, schema: str, series: Series, found: Occurrence, *, moved_too: bool = True
) -> bool:
    """End an occurrence so that its series may revive it; whether that was still possible.

    One that a person has moved while this waited for it is only brought up to date, unless those are ended as well.
    """
    run = partial(fetch, connection, schema)
    standing = occurrence_moves.free(run, found.id)
    if standing is None:
        return False
    again = found if standing.version == found.version else find(connection, schema, series, found.recurrence_id)
    if again is None:
        return False
    if again.moved and not moved_too:
        bring(connection, schema, series, again)
        return False
    return occurrence_moves.withdraw(run, standing, keeps_time=again.moved)


def find(connection: CallersConnection, schema: str, series: Series, recurrence_id: str) -> Occurrence | None:
    """The reminder that a turn has become, if it has."""
    rows = fetch(connection, schema, FIND, identities=[identity_of(series, recurrence_id).hex()])
    return _read(rows[0]) if rows else None


def request_of(series: Series, planned: Planned) -> ReminderRequest:
    """A turn as a reminder to schedule. The series' parts were checked when it was scheduled."""
    identity = identity_of(series, planned.turn.recurrence_id)
    zone = series.effective_zone
    asked = {"due_at": planned.turn.at, "zone": zone, "data": series.data, "expires_at": planned.expires_at}
    return ReminderRequest(
        id=uuid7(),
        tenant_id=series.tenant_id,
        user_id=series.user_id,
        kind=series.kind,
        channel=series.channel,
        destination=series.destination,
        destination_id=series.destination_id,
        reference=series.reference or str(series.id),
        slot=series.slot,
        data=series.data,
        due_at=planned.turn.at,
        zone=zone,
        expires_at=planned.expires_at,
        identity_key=identity,
        request_hash=request_hash(destination=series.destination, **asked),  # type: ignore[arg-type]
        delivery_key=delivery_key(identity, 1),
        series_id=series.id,
        recurrence_id=planned.turn.recurrence_id,
    )


def is_moved(recurrence_id: str, due_at: datetime, zone: str, *, said: bool) -> bool:
    """Whether a person has moved an occurrence: `said` so, and not back to the time that is its own in `zone`."""
    return said and not (zone in known_zones() and instant_of(recurrence_id, zone) == due_at)


def _read(row: Sequence[Any]) -> Occurrence:
    id_, series_id, turn, due_at, expires_at, zone, destination, data, status, live, said, *rest, planned_zone = row
    times = due_at.astimezone(UTC), expires_at and expires_at.astimezone(UTC)
    moved = is_moved(turn, due_at, planned_zone, said=said)
    return Occurrence(UUID(id_), UUID(series_id), turn, *times, zone, destination, data, status, live, moved, *rest)

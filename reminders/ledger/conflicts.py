"""What a request that conflicts with a reminder asked for otherwise, named for whoever made it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from reminders.domain.errors import Conflict
from reminders.domain.request import ReminderRequest
from reminders.ledger.database import Row
from reminders.ledger.statement import Statement

STANDING = Statement(
    "conflict_standing",
    """
SELECT encode(r.identity_key, 'hex'), r.destination_id::text, r.due_at, r.zone, r.expires_at, r.data::text
FROM unnest(:identities) AS wanted (identity)
JOIN {s}.reminders r ON r.identity_key = decode(wanted.identity, 'hex')
""",
    {"identities": "text[]"},
)


def conflicts(run: Callable[..., list[Row]], requests: Sequence[tuple[ReminderRequest, str]]) -> list[Conflict]:
    """A conflict for each request, whose identity stands, as the reminder with that id, with other content.

    The fields that differ are named, not their values.
    """
    rows = run(STANDING, identities=[request.identity_key.hex() for request, _ in requests])
    standing = {row[0]: row[1:] for row in rows}
    return [
        _conflict(request, known_id, *found)
        if (found := standing.get(request.identity_key.hex()))
        else purged_conflict(request, known_id)
        for request, known_id in requests
    ]


def purged_conflict(request: ReminderRequest, known_id: str) -> Conflict:
    """The same for one that has ended and was purged: what it was like is forgotten."""
    return Conflict(
        f"reminder {known_id} stood for this tenant, user, kind, channel, slot and {_about(request)}, with another "
        "destination, time, zone, data or expiry; it has ended and was purged: give the new one its own slot"
    )


def _conflict(request: ReminderRequest, known_id: str, *standing: object) -> Conflict:
    destination_id, due_at, zone, expires_at, data = standing
    differs = {
        "destination": destination_id != str(request.destination_id),
        "due_at": due_at != request.due_at,
        "zone": zone != request.zone,
        "expires_at": expires_at != request.expires_at,
        "data": json.loads(str(data)) != json.loads(request.data),
    }
    names = [name for name, other in differs.items() if other]
    # Rescheduled since, it may stand as this request wants it; but this is not what first asked for it.
    what = f"another {' and '.join(names)}" if names else "what another request asked for"
    return Conflict(
        f"reminder {known_id} already stands for this tenant, user, kind, channel, slot and {_about(request)}, with {what}; "
        "reschedule it to move it, or give the new one its own slot"
    )


def _about(request: ReminderRequest) -> str:
    if request.reference is not None:
        return f"reference {request.reference!r}"
    return f"instant {request.due_at.isoformat()}"

"""What becomes of a message whose recipient may be in quiet hours: it waits for their end, or the claim is asked for again.

Civil time is worked out here, in Python with the pinned zone database, never by Postgres. The claim only compares instants:
it takes nothing from `recipients.clear_until` on, until somebody has worked out the next one.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.calendar.quiet_hours import Clear, Quiet, QuietHours, standing_at
from reminders.domain.errors import InvalidInput
from reminders.ledger.claim_rules import ENDS, HELD, PLACE, QUIET, RULES
from reminders.ledger.database import Database
from reminders.ledger.holding import SPREAD
from reminders.ledger.pause_rules import PAUSED
from reminders.ledger.statement import Statement

logger = logging.getLogger(__name__)

HOURS_OF = Statement(
    "quiet_hours_of",
    """
SELECT COALESCE(:now, clock_timestamp()), u.zone, u.quiet_from, u.quiet_to
FROM {s}.reminders r JOIN {s}.recipients u ON u.tenant_id = r.tenant_id AND u.user_id = r.user_id
WHERE r.id = :id AND u.quiet_from IS NOT NULL
""",
    {"now": "timestamptz", "id": "uuid"},
)

_READ = {"zone": "text", "start": "time", "end": "time", "until": "timestamptz"}
_STILL_SO = "w.zone = :zone AND w.quiet_from = :start AND w.quiet_to = :end"
"""Of a recipient `w`: nobody has changed what `until` was worked out from."""

# An application may hold the row; it is not waited for.
NOTE_CLEAR_IF_STILL_SO = Statement(
    "note_clear",
    f"""
WITH mine AS MATERIALIZED (
    SELECT w.tenant_id, w.user_id
    FROM {{s}}.reminders r JOIN {{s}}.recipients w ON w.tenant_id = r.tenant_id AND w.user_id = r.user_id
    WHERE r.id = :id AND {_STILL_SO}
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE {{s}}.recipients w SET clear_until = :until FROM mine WHERE w.tenant_id = mine.tenant_id AND w.user_id = mine.user_id
RETURNING 1
""",
    {**_READ, "id": "uuid"},
)

# The time until then counts neither against the bound that the reminder was given by waiting, nor against its budget; its
# expiry stands. `quiet_until` says why it waits, for as long as `wake_at` is the same.
PARK_IF_QUIET = Statement(
    "park_quiet",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
quiet AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.give_up_at, r.expires_at, :until + {SPREAD} AS until
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    JOIN {{s}}.recipients w ON w.tenant_id = r.tenant_id AND w.user_id = r.user_id AND {_STILL_SO}
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published')
      AND {QUIET} AND NOT {ENDS} AND NOT {HELD} AND NOT {PAUSED}
    FOR NO KEY UPDATE OF d SKIP LOCKED
), bounded AS MATERIALIZED (
    SELECT quiet.*, CASE WHEN give_up_at IS DISTINCT FROM expires_at THEN LEAST(give_up_at + (until - (SELECT now FROM t)), expires_at)
                         ELSE give_up_at END AS bound
    FROM quiet
), budget AS (
    UPDATE {{s}}.notification_deliveries n
    SET held_for = COALESCE(n.held_for, '0') + (LEAST(bounded.until, bounded.bound) - (SELECT now FROM t))
    FROM bounded WHERE n.delivery_key = bounded.delivery_key AND n.budget_started_at IS NOT NULL
)
UPDATE {{s}}.due d
SET status = 'pending', wake_at = LEAST(bounded.until, bounded.bound), quiet_until = LEAST(bounded.until, bounded.bound),
    give_up_at = bounded.bound
FROM bounded WHERE d.id = bounded.id
RETURNING 'quiet_hours'
""",
    {**RULES, **_READ, "key": "text", "now": "timestamptz", "id": "uuid"},
)


def park_if_quiet(
    database: Database, reminder_id: UUID, delivery_key: str, *, now: datetime | None, **rules: Any
) -> str:
    """Let the reminder wait for the end of its recipient's quiet hours: `quiet_hours`.

    `busy` if it is not quiet: the claim is to be asked for again. `rules` are the values of `RULES`.
    """
    found = database.fetch(HOURS_OF, now=now, id=str(reminder_id))
    if not found:
        return "busy"
    at, zone, start, end = found[0]
    read = {"id": str(reminder_id), "zone": zone, "start": start, "end": end}
    standing = _standing(at, zone, QuietHours(start, end))
    if isinstance(standing, Clear):
        database.fetch(NOTE_CLEAR_IF_STILL_SO, **read, until=standing.until)
        return "busy"
    parked = database.fetch(PARK_IF_QUIET, **read, **rules, until=standing.until, key=delivery_key, now=now)
    return str(parked[0][0]) if parked else "busy"


def _standing(at: datetime, zone: str, hours: QuietHours) -> Quiet | Clear:
    try:
        return standing_at(at, zone, hours)
    except InvalidInput:
        # Another worker has a later release of the zone database. Nothing may wait for ever, and nobody be woken at random.
        logger.exception("quiet_hours.unknown_zone zone=%s: read as UTC", zone)
        return standing_at(at, "UTC", hours)

"""Which turns of series are lost: neither a reminder nor on record, though they have been decided.

This goes through the rules of all series, so it is asked for by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, takewhile

from reminders.calendar.recurrence import Occurrence as Turn
from reminders.ledger.audit_check import Check
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.occurrence_identity import identity_of
from reminders.ledger.planning import BROKEN
from reminders.ledger.series_reading import each_series
from reminders.ledger.series_rows import Series
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import ZONES_APART

LOOKED_BACK = timedelta(days=31)
"""How far it looks back, unless it is told."""
MOST_TURNS = 1000
"""How many turns of one series it looks at, from the oldest."""
BATCH = 5000
"""How many turns it asks about at once."""

# What was withdrawn and was due later only comes back when its series goes on. A record of many turns stands for all of
# them, and is as old as the newest.
LOST = Statement(
    "audit_turn_lost",
    """
SELECT w.series_id::text, w.turn, w.due_at
FROM json_to_recordset(:rows) AS w (series_id uuid, turn text, due_at timestamptz, identity text)
WHERE NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.identity_key = decode(w.identity, 'hex')
                  AND (r.withdrawn_at IS NULL OR r.due_at > :now))
  AND NOT EXISTS (SELECT 1 FROM {s}.keys_seen k WHERE k.identity_key = decode(w.identity, 'hex'))
  AND NOT EXISTS (SELECT 1 FROM {s}.series_skips k WHERE k.series_id = w.series_id AND k.recurrence_id = w.turn)
  AND NOT EXISTS (SELECT 1 FROM {s}.series_skips k WHERE k.series_id = w.series_id AND k.count > 1 AND k.due_at >= w.due_at)
ORDER BY w.series_id, w.due_at
""",
    {"rows": "json", "now": "timestamptz"},
)

TURN_LOST = Check(
    "turn_lost",
    "Every turn that a series has decided on since it was last changed is a reminder, on record as skipped, or left out.",
    "turns",
    LOST.sql,
    "It was not sent. If it is still wanted, schedule a reminder for it by itself; report it as a fault of reminders.",
)


def lost_turns(
    connection: CallersConnection, schema: str, *, since: datetime | None, now: datetime
) -> Iterator[tuple[None, None, str]]:
    """Turns that are lost, as rows of a check: of all series, those that were due since, or in the last `LOOKED_BACK`.

    What a series gave before it was last changed is not known any more, and not looked at.
    """
    after = now - LOOKED_BACK if since is None else since
    decided = _decided(each_series(connection, schema, limit=None, now=now), after)
    while some := list(islice(decided, BATCH)):
        rows = [
            {
                "series_id": str(series.id),
                "turn": turn.recurrence_id,
                "due_at": turn.at.isoformat(),
                "identity": identity_of(series, turn.recurrence_id).hex(),
            }
            for series, turn in some
        ]
        for series_id, name, due_at in fetch(connection, schema, LOST, rows=json.dumps(rows), now=now):
            yield None, None, f"turn {name} of series {series_id}, due at {due_at}, is no reminder and not on record"


def _decided(found: Iterator[Series], after: datetime) -> Iterator[tuple[Series, Turn]]:
    for series in found:
        if series.status == "cancelled":
            continue
        try:
            turns = list(islice(_turns(series, after), MOST_TURNS))
        except BROKEN:
            # `series_faulty` tells of it.
            continue
        yield from ((series, turn) for turn in turns)


def _turns(series: Series, after: datetime) -> Iterator[Turn]:
    """The turns of one series that are decided, by its zone at that time."""
    when = series.when()
    recurrence = replace(when.recurrence, zone=series.zone_before)
    changed = series.changed_at
    if series.follows_user:
        if recurrence.rule is not None and recurrence.rule.elapsed:
            # These are others in each zone, and no record says when that was another one.
            return iter(())
        changed += ZONES_APART
    turns = when.without_skipped(recurrence.since(max(after, changed)))
    return takewhile(lambda turn: turn.at <= series.planned_until, turns)

"""Records of turns that are not made: a turn is a reminder or such a record, never both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.occurrence_identity import identity_of
from reminders.ledger.series_rows import Series
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import Skip

# What its series has withdrawn is no reminder any more. A record of many turns stands for others too.
RECORD = Statement(
    "series_record_skips",
    """
INSERT INTO {s}.series_skips (series_id, recurrence_id, due_at, lateness, reason, count)
SELECT series_id, recurrence_id, due_at, make_interval(secs => lateness), reason, count
FROM json_to_recordset(:rows) AS i (series_id uuid, recurrence_id text, due_at timestamptz, lateness float8, reason text, count integer, identity text)
WHERE i.count > 1
   OR (SELECT r.withdrawn_at IS NULL FROM {s}.reminders r WHERE r.identity_key = decode(i.identity, 'hex')) IS NOT TRUE
ON CONFLICT (series_id, recurrence_id) DO NOTHING RETURNING 1
""",
    {"rows": "json"},
)

FORGET = Statement(
    "series_forget_skips",
    """
DELETE FROM {s}.series_skips k USING unnest(:series, :turns) AS made (series_id, recurrence_id)
WHERE k.series_id = made.series_id AND k.recurrence_id = made.recurrence_id AND k.count = 1 RETURNING 1
""",
    {"series": "uuid[]", "turns": "text[]"},
)

FIND = Statement(
    "series_find_skip",
    "SELECT 1 FROM {s}.series_skips WHERE series_id = :series AND recurrence_id = :turn AND count = 1",
    {"series": "uuid", "turn": "text"},
)


def record_skips(connection: CallersConnection, schema: str, left_out: Sequence[tuple[Series, Skip]]) -> None:
    """Note turns that are not made, each once, with its lateness; none that is a reminder."""
    if not left_out:
        return
    rows = [
        {
            "series_id": str(series.id),
            "recurrence_id": skip.turn.recurrence_id,
            "due_at": skip.turn.at.isoformat(),
            "lateness": skip.lateness.total_seconds(),
            "reason": skip.reason,
            "count": skip.count,
            "identity": identity_of(series, skip.turn.recurrence_id).hex(),
        }
        for series, skip in left_out
    ]
    fetch(connection, schema, RECORD, rows=json.dumps(rows))


def forget_skips(connection: CallersConnection, schema: str, made: Sequence[tuple[UUID, str]]) -> None:
    """Take back the records of turns, given as series and recurrence id, that have become reminders after all."""
    if made:
        series, turns = [str(each) for each, _ in made], [turn for _, turn in made]
        fetch(connection, schema, FORGET, series=series, turns=turns)


def is_recorded(connection: CallersConnection, schema: str, series_id: UUID, recurrence_id: str) -> bool:
    """Whether a turn has a record of its own."""
    return bool(fetch(connection, schema, FIND, series=str(series_id), turn=recurrence_id))

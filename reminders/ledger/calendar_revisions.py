"""How new what an import has told of each component of a calendar is: of its events, and of their single turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.statement import Statement

PAGE = 5000
"""Revisions read in one round trip."""

REVISIONS = Statement(
    "calendar_revisions",
    """
SELECT encode(uid_key, 'hex'), recurrence_id, and_future, sequence, stamp, cancelled
FROM {s}.calendar_revisions
WHERE calendar_id = :id AND (uid_key, recurrence_id, and_future) > (decode(:uid, 'hex'), :recurrence_id, :and_future)
ORDER BY uid_key, recurrence_id, and_future LIMIT :page
""",
    {"id": "uuid", "uid": "text", "recurrence_id": "text", "and_future": "boolean", "page": "integer"},
)

SAVE = Statement(
    "calendar_save_revisions",
    """
INSERT INTO {s}.calendar_revisions AS r (calendar_id, uid_key, recurrence_id, and_future, sequence, stamp, cancelled)
SELECT :id, uid_key, recurrence_id, and_future, sequence, stamp, cancelled
FROM json_to_recordset(:rows) AS i (uid_key bytea, recurrence_id text, and_future boolean, sequence integer, stamp text,
                                    cancelled boolean)
ON CONFLICT (calendar_id, uid_key, recurrence_id, and_future) DO UPDATE
SET sequence = EXCLUDED.sequence, stamp = EXCLUDED.stamp, cancelled = EXCLUDED.cancelled
RETURNING 1
""",
    {"id": "uuid", "rows": "json"},
)


@dataclass(frozen=True, slots=True)
class Revision:
    """How new a word about an event is. `stamp` is its DTSTAMP, in UTC; empty where it is not known."""

    sequence: int
    stamp: str = ""
    cancelled: bool = False

    def is_older_than(self, other: Revision) -> bool:
        """RFC 5546 section 2.1.5: by SEQUENCE, then by DTSTAMP. Of the same revision, that which cancels is the newer."""
        if self.sequence != other.sequence:
            return self.sequence < other.sequence
        if self.stamp != other.stamp and self.stamp and other.stamp:
            return self.stamp < other.stamp
        return other.cancelled and not self.cancelled


@dataclass(frozen=True, slots=True)
class Component:
    """What a revision is of: an event as a whole (`recurrence_id` is empty), one of its turns, or all from that one on."""

    uid_key: bytes
    recurrence_id: str = ""
    and_future: bool = False


def revisions(connection: CallersConnection, schema: str, calendar: UUID) -> Iterator[tuple[Component, Revision]]:
    """All revisions of a calendar."""
    uid, recurrence_id, and_future = "", "", False
    while rows := fetch(
        connection, schema, REVISIONS,
        id=str(calendar), uid=uid, recurrence_id=recurrence_id, and_future=and_future, page=PAGE,
    ):  # fmt: skip
        for uid, recurrence_id, and_future, sequence, stamp, cancelled in rows:
            yield Component(bytes.fromhex(uid), recurrence_id, and_future), Revision(sequence, stamp, cancelled)


def save(
    connection: CallersConnection, schema: str, calendar: UUID, told: Sequence[tuple[Component, Revision]]
) -> None:
    """Write revisions, new ones and such that have changed."""
    rows = [
        {
            "uid_key": f"\\x{component.uid_key.hex()}",
            "recurrence_id": component.recurrence_id,
            "and_future": component.and_future,
            "sequence": revision.sequence,
            "stamp": revision.stamp,
            "cancelled": revision.cancelled,
        }
        for component, revision in told
    ]
    fetch(connection, schema, SAVE, id=str(calendar), rows=json.dumps(rows))

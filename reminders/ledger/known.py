"""Which channels and zones there are, told to the ledger: its SQL functions can ask neither Python nor `tzdata`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

TELL = Statement(
    "tell_known",
    """
WITH channels AS (
    INSERT INTO {s}.known_channels AS k (name, deduplicates) SELECT * FROM unnest(:channels, :deduplicates) AS c (name, deduplicates)
    ORDER BY name
    ON CONFLICT (name) DO UPDATE SET deduplicates = EXCLUDED.deduplicates WHERE k.deduplicates <> EXCLUDED.deduplicates
    RETURNING 1
), zones AS (
    INSERT INTO {s}.known_zones (name) SELECT * FROM unnest(:zones) AS z (name) ORDER BY name ON CONFLICT (name) DO NOTHING
    RETURNING 1
)
SELECT (SELECT count(*) FROM channels), (SELECT count(*) FROM zones)
""",
    {"channels": "text[]", "deduplicates": "boolean[]", "zones": "text[]"},
)


def tell(database: Database, deduplicates: Mapping[str, bool], zones: Collection[str]) -> tuple[int, int]:
    """Add channels, with whether their destinations are expected to deduplicate, and zones; how many were new or changed.

    None is ever removed: another installation on the same ledger may have it.
    """
    ((channels, names),) = database.fetch(
        TELL,
        channels=list(deduplicates),
        deduplicates=list(deduplicates.values()),
        zones=list(zones),
    )
    return channels, names

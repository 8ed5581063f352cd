"""Which dispatchers run: their scanners say so at each tick, and how long the claims of their workers last."""

from __future__ import annotations

from collections.abc import Iterable

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

AWAY_AFTER = 3
"""Of beat's periods, without a word of any of its scanners, after which nobody counts as running a dispatcher."""

SEEN = """INSERT INTO {s}.dispatchers AS x (name, seen_at, claim) VALUES (:dispatcher, clock_timestamp(), :claim)
    ON CONFLICT (name) DO UPDATE SET seen_at = EXCLUDED.seen_at, claim = EXCLUDED.claim"""
"""What a scanner's tick says besides, as a CTE; with `SAYS`."""

SAYS = {"dispatcher": "text", "claim": "float8"}

AWAY = Statement(
    "dispatchers_away",
    """
SELECT name FROM unnest(:names) AS wanted (name)
WHERE NOT EXISTS (SELECT 1 FROM {s}.dispatchers x
                  WHERE x.name = wanted.name AND x.seen_at > clock_timestamp() - make_interval(secs => :seconds))
ORDER BY name
""",
    {"names": "text[]", "seconds": "float8"},
)

CLAIM_OF = Statement(
    "claim_of_dispatcher", "SELECT claim FROM {s}.dispatchers WHERE name = :dispatcher", {"dispatcher": "text"}
)


def away(database: Database, names: Iterable[str], *, scan_every: float) -> list[str]:
    """Those of the dispatchers that nobody has been seen to run of late; `scan_every` is beat's period in seconds."""
    return [row[0] for row in database.fetch(AWAY, names=sorted(set(names)), seconds=AWAY_AFTER * scan_every)]


def claim_of_scanners(database: Database, dispatcher: str) -> float | None:
    """For how many seconds the scanners of `dispatcher` take claims to last; None before one has said so."""
    rows = database.fetch(CLAIM_OF, dispatcher=dispatcher)
    return float(rows[0][0]) if rows else None

"""How late reminders may be: a tenant's word, for all its kinds or for one. It gives those without an expiry theirs."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

ALL_KINDS = ""
"""Stands for every kind of a tenant; what is said for one kind goes before it."""

SET = Statement(
    "lateness_set",
    """
INSERT INTO {s}.lateness_policies AS l (tenant_id, kind, max_lateness) VALUES (:tenant, :kind, :seconds)
ON CONFLICT (tenant_id, kind) DO UPDATE SET max_lateness = EXCLUDED.max_lateness, said_at = clock_timestamp()
RETURNING 1
""",
    {"tenant": "text", "kind": "text", "seconds": "float8"},
)

FORGET = Statement(
    "lateness_forget",
    "DELETE FROM {s}.lateness_policies WHERE tenant_id = :tenant AND kind = :kind RETURNING 1",
    {"tenant": "text", "kind": "text"},
)

KNOWN = Statement(
    "lateness_known",
    "SELECT kind, max_lateness FROM {s}.lateness_policies WHERE tenant_id = :tenant ORDER BY kind",
    {"tenant": "text"},
)


@dataclass(frozen=True, slots=True)
class Lateness:
    """Seconds by which a tenant's reminders of a kind may be late; `kind` is None for all that have no word of their own."""

    kind: str | None
    max_lateness: float


def set_lateness(database: Database, tenant: str, kind: str, seconds: float | None) -> None:
    """What is scheduled from now on without an expiry goes by it; None takes the word back. The texts must be checked."""
    if seconds is None:
        database.fetch(FORGET, tenant=tenant, kind=kind)
    else:
        database.fetch(SET, tenant=tenant, kind=kind, seconds=seconds)


def known_lateness(database: Database, tenant: str) -> list[Lateness]:
    """All that a tenant has said, by kind."""
    return [Lateness(kind or None, seconds) for kind, seconds in database.fetch(KNOWN, tenant=tenant)]

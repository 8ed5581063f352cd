"""What a tenant has said of a kind of reminder: critical ones do not wait for the end of quiet hours.

That is all it means. A suppression or a preference holds against a critical kind as against any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from reminders.domain.request import checked_text
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

SET = Statement(
    "kind_set",
    """
INSERT INTO {s}.kind_policies AS k (tenant_id, kind, critical) VALUES (:tenant, :kind, :critical)
ON CONFLICT (tenant_id, kind) DO UPDATE SET critical = EXCLUDED.critical, said_at = clock_timestamp()
RETURNING 1
""",
    {"tenant": "text", "kind": "text", "critical": "boolean"},
)

KNOWN = Statement(
    "kinds_known",
    "SELECT kind, critical, said_at FROM {s}.kind_policies WHERE tenant_id = :tenant ORDER BY kind",
    {"tenant": "text"},
)


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """A kind of which a tenant has said something. `said_at` is UTC."""

    kind: str
    critical: bool
    said_at: datetime


def set_critical(database: Database, tenant: str, kind: str, *, critical: bool) -> None:
    """Say whether the kind passes quiet hours; claims from now on go by it. Raises `InvalidInput`."""
    given = {"tenant": checked_text("tenant_id", tenant), "kind": checked_text("kind", kind)}
    database.fetch(SET, **given, critical=critical)


def kinds(database: Database, tenant: str) -> list[KindPolicy]:
    """Every kind of which the tenant has said something; the others are not critical."""
    return [
        KindPolicy(kind, critical, at.astimezone(UTC)) for kind, critical, at in database.fetch(KNOWN, tenant=tenant)
    ]

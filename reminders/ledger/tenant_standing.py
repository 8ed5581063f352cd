"""Where tenants stand: mode, dispatcher, epoch, cohorts, and who said so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from reminders.domain.tenants import Mode
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

# The change that set the mode, or gave it away, last; none for a tenant that is as it was met.
STANDING = Statement(
    "tenants_standing",
    """
SELECT p.tenant_id, p.mode, p.dispatcher, p.epoch,
       ARRAY(SELECT m.cohort FROM {s}.cohort_members m WHERE m.tenant_id = p.tenant_id ORDER BY m.cohort),
       c.actor, c.reason, c.changed_at
FROM {s}.tenant_policies p
LEFT JOIN LATERAL (
    SELECT * FROM {s}.tenant_changes c WHERE c.tenant_id = p.tenant_id ORDER BY c.changed_at DESC LIMIT 1
) c ON true
WHERE p.channel = '' AND p.mode IS NOT NULL AND (:tenant IS NULL OR p.tenant_id = :tenant)
ORDER BY p.tenant_id LIMIT :limit
""",
    {"tenant": "text", "limit": "integer"},
)

COUNTED = Statement(
    "tenants_counted",
    "SELECT mode, dispatcher, count(*) FROM {s}.tenant_policies WHERE channel = '' AND mode IS NOT NULL GROUP BY mode, dispatcher",
    {},
)


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """A tenant that the ledger knows. `changed_at`, UTC, is when a person last changed mode or dispatcher; None if nobody has."""

    tenant_id: str
    mode: Mode
    dispatcher: str
    epoch: int
    """How often it was handed over."""
    cohorts: list[str]
    actor: str | None
    reason: str | None
    changed_at: datetime | None


def standing(database: Database, *, tenant: str | None, limit: int) -> list[TenantStanding]:
    """The tenants that the ledger has met, by name; one of them if it is named."""
    return [
        TenantStanding(name, mode, dispatcher, epoch or 0, cohorts, actor, reason, at and at.astimezone(UTC))
        for name, mode, dispatcher, epoch, cohorts, actor, reason, at in database.fetch(
            STANDING, tenant=tenant, limit=limit
        )
    ]


def counted(database: Database) -> tuple[dict[str, int], dict[str, int]]:
    """How many tenants are in each mode, and how many are each dispatcher's."""
    modes: dict[str, int] = {}
    dispatchers: dict[str, int] = {}
    for mode, dispatcher, number in database.fetch(COUNTED):
        modes[mode] = modes.get(mode, 0) + number
        dispatchers[dispatcher] = dispatchers.get(dispatcher, 0) + number
    return modes, dispatchers

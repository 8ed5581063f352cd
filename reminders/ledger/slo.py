"""The service level objective, read: how many reminders were called for and delivered within which time, by day and tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from reminders.ledger.counting import IN_TIME
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

DAYS = Statement(
    "slo_days",
    """
SELECT day, tenant_id, late_within, called, delivered FROM {s}.slo_days
WHERE day > (clock_timestamp() AT TIME ZONE 'UTC')::date - :days AND (:tenant IS NULL OR tenant_id = :tenant)
ORDER BY day DESC, tenant_id, late_within
""",
    {"days": "integer", "tenant": "text"},
)


@dataclass(slots=True)
class SloDay:
    """One tenant's reminders that were due on one day, UTC.

    `called` and `delivered` count them by the seconds up to which they were late, each in the lowest bound that holds: the
    first from when a call could be made, the second from the due time.
    """

    day: date
    tenant_id: str
    called: dict[float, int] = field(default_factory=dict)
    delivered: dict[float, int] = field(default_factory=dict)

    @property
    def in_time(self) -> int:
        """How many were called for within `IN_TIME`."""
        return sum(number for bound, number in self.called.items() if bound <= IN_TIME)

    @property
    def late(self) -> int:
        return sum(self.called.values()) - self.in_time


def slo_days(database: Database, *, days: int, tenant: str | None = None) -> list[SloDay]:
    """The last `days` days, today included, newest first; of all tenants, or of one."""
    found: dict[tuple[date, str], SloDay] = {}
    for day, tenant_id, bound, called, delivered in database.fetch(DAYS, days=days, tenant=tenant):
        one = found.setdefault((day, tenant_id), SloDay(day, tenant_id))
        for counts, number in ((one.called, called), (one.delivered, delivered)):
            if number:
                counts[bound] = number
    return list(found.values())

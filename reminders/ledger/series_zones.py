"""Series that follow their user: what a change of the user's zone asks for."""

from __future__ import annotations

from reminders.ledger.series_rows import Run
from reminders.ledger.statement import Statement

# The planner does it, within a second of the commit.
ZONE_CHANGED = Statement(
    "series_zone_changed",
    """
UPDATE {s}.series SET replan = true, plan_at = clock_timestamp()
WHERE tenant_id = :tenant AND user_id = :user AND follows_user AND status = 'active' RETURNING 1
""",
    {"tenant": "text", "user": "text"},
)


def users_zone_changed(run: Run, tenant_id: str, user_id: str) -> int:
    """Have the series that follow a user replanned, since the user's zone is another one now; how many there are."""
    return len(run(ZONE_CHANGED, tenant=tenant_id, user=user_id))

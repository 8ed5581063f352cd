"""Series that follow their user: what a change of the user's zone asks for."""

from __future__ import annotations

from reminders.ledger.series_rows import Run
from reminders.ledger.statement import Statement
from reminders.pipeline.plan import ZONES_APART

# The planner does it, within a second of the commit. A series that has just ended may have its last turns ahead again.
ZONE_CHANGED = Statement(
    "series_zone_changed",
    """
UPDATE {s}.series SET status = 'active', replan = true, plan_at = clock_timestamp()
WHERE tenant_id = :tenant AND user_id = :user AND follows_user
  AND (status = 'active' OR status = 'ended' AND planned_until > clock_timestamp() - make_interval(secs => :apart)) RETURNING 1
""",
    {"tenant": "text", "user": "text", "apart": "float8"},
)


def users_zone_changed(run: Run, tenant_id: str, user_id: str) -> int:
    """Have the series that follow a user replanned, since the user's zone is another one now; how many there are."""
    return len(run(ZONE_CHANGED, tenant=tenant_id, user=user_id, apart=ZONES_APART.total_seconds()))

"""The last step of every drill: the audit of what it left in the ledger."""

from __future__ import annotations

from datetime import timedelta

from reminders.ledger.audit import AuditPolicy, audit
from reminders.operate.drills.drill import Broken
from reminders.operate.drills.scene import Scene

_MOST = 1000
"""Violations of a check that are looked at."""


def audited(scene: Scene, *, since: timedelta | None = None) -> None:
    """Run `reminders audit`. With `since`, on an installation with other work, only the drill's own reminders count.

    Raises `Broken` with the first violation.
    """
    s = scene.settings
    policy = AuditPolicy(s.max_attempts, s.max_wait, s.dedup_window, s.in_flight_limit)
    found = audit(scene.database, policy, since=since, limit=_MOST)
    own = {str(each) for each in scene.ids}
    for result in found.results:
        for violation in result.shown:
            if since is None or violation.reminder_id in own:
                raise Broken(f"the audit: {result.check.name}: {violation.detail}; must hold: {result.check.meaning}")
    scene.saw(f"audit: no violation, {len(found.results)} checks")

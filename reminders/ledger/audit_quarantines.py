"""What must hold after a restore from a backup: the quarantine has reached its end, and every reminder."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

QUARANTINES: tuple[Check, ...] = (
    Check(
        "quarantine_unfinished",
        "A quarantine that was begun has reached its end within the grace.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'quarantine ' || id || ' was begun at ' || started_at || ', and everything is paused since'
FROM {s}.quarantines WHERE ended_at IS NULL AND started_at <= :stale""",
        "Nothing is sent until then. Stop workers and scanners, and say the same `reminders quarantine --since T` again.",
    ),
    Check(
        "left_out_of_quarantine",
        "What was there when the backup of a quarantine was taken, and is not delivered, has a version of its epoch or of a later one.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'is at version ' || r.version || ', and quarantine ' || q.id || ' moved all to ' || q.base
FROM (SELECT * FROM {s}.quarantines WHERE ended_at IS NOT NULL AND reached IS NOT NULL ORDER BY base DESC LIMIT 1) q
JOIN {s}.reminders r ON r.created_at <= q.since AND r.id <= q.reached AND r.version < q.base AND r.status <> 'delivered'""",
        "Its next key may be one that was used before the restore: ask its receiver for it before it is rescheduled.",
    ),
)
"""Checks of `quarantines` against the reminders they were to judge."""

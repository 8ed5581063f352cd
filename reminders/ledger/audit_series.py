"""What must hold of series: each goes on, and what it has planned is its own."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

SERIES: tuple[Check, ...] = (
    Check(
        "series_not_planned",
        "The planner has decided on every active series whose time has come.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'series ' || id || CASE WHEN plan_at IS NULL THEN ' is active, and never looked at again'
                                                       ELSE ' was to be planned at ' || plan_at END
FROM {s}.series WHERE status = 'active' AND (plan_at IS NULL OR plan_at <= :stale)""",
        "Does a scanner run (`reminders status`)? `reminders scan` plans it now; if it does not, somebody's open transaction "
        "holds the series (`pg_stat_activity`).",
    ),
    Check(
        "series_faulty",
        "Every active series can be planned by this release.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'series ' || id || ' cannot be planned: ' || fault FROM {s}.series WHERE fault IS NOT NULL""",
        "Nothing of it is sent. `reminders series show ID` has its rule and zone; put right what is wrong with `reminders "
        "series edit ID`.",
    ),
    Check(
        "series_planned_ahead",
        "Of an active series only its next turn is planned; others are due later only if a person has moved them.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'series ' || s.id || ' has ' || ahead.number || ' turns planned ahead'
FROM {s}.series s CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM {s}.reminders r
    WHERE r.series_id = s.id AND r.due_at > :now AND r.status = 'live' AND r.moved_at IS NULL) ahead
WHERE s.status = 'active' AND ahead.number > 1""",
        "They are sent, each once. `reminders replan --series ID` withdraws what does not belong there; if it comes again, "
        "report it as a fault of reminders.",
    ),
    Check(
        "series_planned_in_vain",
        "Of a series that is paused or cancelled nothing is due later.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'due at ' || r.due_at || ', while series ' || s.id || ' is ' || s.status
FROM {s}.series s JOIN {s}.reminders r ON r.series_id = s.id
WHERE s.status IN ('paused', 'cancelled') AND r.status = 'live' AND r.due_at > :now AND r.moved_at IS NULL""",
        "It would be sent: `reminders cancel ID`.",
    ),
    Check(
        "skipped_but_made",
        "A turn that is on record as skipped is no reminder, or one that was cancelled.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'turn ' || k.recurrence_id || ' of series ' || k.series_id || ' was skipped (' || k.reason || '), and is '
       || COALESCE(d.status, r.status)
FROM {s}.series_skips k
JOIN {s}.reminders r ON r.series_id = k.series_id AND r.recurrence_id = k.recurrence_id
LEFT JOIN {s}.due d ON d.id = r.id
WHERE k.count = 1 AND r.status <> 'cancelled'""",
        "It is sent, or was, once: the record is wrong. Report it as a fault of reminders.",
    ),
    Check(
        "occurrence_without_series",
        "An occurrence's series exists, and has its tenant, user, kind, channel and slot.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'of series ' || r.series_id || CASE WHEN s.id IS NULL THEN ', which is on no record' ELSE ', which is somebody else''s' END
FROM {s}.reminders r LEFT JOIN {s}.series s ON s.id = r.series_id
WHERE r.series_id IS NOT NULL AND (s.id IS NULL OR (s.tenant_id, s.user_id, s.kind, s.channel, s.slot) <> (r.tenant_id, r.user_id, r.kind, r.channel, r.slot))""",
        "Somebody has changed or deleted the row by hand; nothing plans its successor. Put the series back.",
    ),
)
"""Checks of `series` against their occurrences."""

"""What must hold of reconciliation: its lines, decisions and runs, and the files that it keeps."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

SETTLEMENTS: tuple[Check, ...] = (
    Check(
        "decided_reminder_gone",
        "The reminder of every decision that stands is there, or was purged.",
        "everything",
        """
SELECT d.reminder_id, NULL::text, 'of decision ' || d.id || ' (' || d.name || ')'
FROM {s}.reconciliation_decisions d
WHERE d.reminder_id IS NOT NULL AND d.withdrawn_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = d.reminder_id)
  AND NOT EXISTS (SELECT 1 FROM {s}.keys_seen k WHERE k.reminder_id = d.reminder_id)""",
        "Somebody is not told: `reminders reconcile --audit --repair` schedules it again, under the same identity.",
    ),
    Check(
        "decided_reminder_of_another",
        "A decision's reminder is the one that it was told by.",
        "everything",
        """
SELECT d.reminder_id, r.delivery_key, 'of decision ' || d.id || ' (' || d.name || ')'
FROM {s}.reconciliation_decisions d JOIN {s}.reminders r ON r.id = d.reminder_id
WHERE r.identity_key <> d.identity_key""",
        "Somebody has changed a row by hand: put `reminder_id` and `identity_key` of the decision back.",
    ),
    Check(
        "withdrawn_but_live",
        "The reminder of a decision that was withdrawn lives no more, or its cancellation is requested.",
        "everything",
        """
SELECT d.reminder_id, r.delivery_key, 'of decision ' || d.id || ' (' || d.name || '), withdrawn at ' || d.withdrawn_at
FROM {s}.reconciliation_decisions d JOIN {s}.reminders r ON r.id = d.reminder_id
WHERE d.withdrawn_at IS NOT NULL AND r.status = 'live' AND r.cancel_requested_at IS NULL""",
        "Somebody would be told what is not so: `reminders cancel ID`. `reminders reconcile --audit --repair` does it for all.",
    ),
    Check(
        "decision_without_line",
        "The line that a standing decision was made for is on record.",
        "everything",
        """
SELECT d.reminder_id, NULL::text, 'decision ' || d.id || ' (' || d.name || ')'
FROM {s}.reconciliation_decisions d
WHERE d.line_id IS NOT NULL AND d.withdrawn_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM {s}.settlement_lines l WHERE l.source = d.source AND l.line_id = d.line_id)""",
        "Nothing shows why it was decided, and no replay of its order looks at it: run the file that has the line again.",
    ),
    Check(
        "line_off_its_order",
        "A line that names an order is looked at with that order's other lines.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'line ' || l.line_id || ' of ' || l.source
FROM {s}.settlement_lines l WHERE l.order_reference IS NOT NULL AND l.group_key <> 'o:' || l.order_reference""",
        "Its order is decided without it. If nobody changed `group_key` by hand, report it as a fault of reminders; the file "
        "that has the line, run again, brings it right.",
    ),
    Check(
        "run_unfinished",
        "A run of reconciliation is finished, or given up, within a day.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'run ' || id || ' of ' || source || ' stands at step ' || step || ' since ' || heard_at
FROM {s}.reconciliation_runs WHERE status = 'running' AND started_at < :now - interval '1 day'""",
        "Its file is taken in by half, or its orders are not decided over. `reminders reconcile --show RUN` says which file, and why "
        "it stopped; run the file again, and it goes on.",
    ),
    Check(
        "kept_file_incomplete",
        "A settlement file that is kept, and complete, has all its pages.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'file ' || f.id || ' has ' || p.number || ' of ' || f.pages || ' pages, ' || p.records || ' of ' || f.records || ' records'
FROM {s}.reconciliation_files f CROSS JOIN LATERAL (
    SELECT count(*) AS number, COALESCE(max(number), 0) AS last, COALESCE(sum(records), 0) AS records
    FROM {s}.reconciliation_file_pages WHERE file_id = f.id) p
WHERE f.status IN ('ready', 'running', 'done') AND (p.number, p.last, p.records) <> (f.pages, f.pages, f.records)""",
        "Rows were deleted by hand: keep the file anew (`reminders reconcile FILE --upload`), or fetch it again.",
    ),
    Check(
        "kept_file_left_alone",
        "A settlement file that is being fetched, or worked on, has gone on within the last hour.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'file ' || id || ' is ' || status || ', untouched since ' || touched_at
FROM {s}.reconciliation_files
WHERE status IN ('receiving', 'running') AND (status = 'running' OR url IS NOT NULL) AND touched_at < :now - interval '1 hour'""",
        "Do beat and the maintenance worker run, with REMINDERS_RECONCILE set? Its log says what the task met.",
    ),
)
"""Checks of reconciliation."""

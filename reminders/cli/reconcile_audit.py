"""What `reminders reconcile --audit` found."""

from __future__ import annotations

from reminders.cli.printing import counted, print_json, print_table
from reminders.cli.reconcile_report import plain
from reminders.intake.settlement.auditing import ReconciliationAudit

_WORDS = {
    "decision_missing": "a decision is missing",
    "decision_differs": "a decision is not what follows now",
    "decision_stale": "a decision no longer follows",
    "reminder_missing": "its reminder is missing",
    "reminder_stale": "its reminder is live, and must not be",
    "not_told": "nobody could be told",
    "not_delivered": "its reminder ended undelivered",
}


def print_audit(found: ReconciliationAudit, *, repair: bool, as_json: bool) -> None:
    """What was compared, what is not as it should be, and what was done about it."""
    if as_json:
        print_json({**plain(found), "repair": repair})
        return
    print(f"{found.source}: {counted(found.decisions, 'decision')} compared")
    if found.statuses:
        by_status = [(decision, status, f"{count:,}") for (decision, status), count in found.statuses.items()]
        print_table(("decision", "reminder", "count"), by_status)
    total = sum(found.counts.values())
    if not total:
        print("\nEverything that follows from the files is there.")
        return
    more = f" (the first {len(found.found):,})" if total > len(found.found) else ""
    print(f"\n{total:,} not as they should be{more}")
    rows = [
        (
            "repaired" if each.repaired else "open",
            _WORDS.get(each.finding, each.finding),
            each.decision,
            each.order or each.line_id,
            each.detail,
        )
        for each in found.found
    ]
    print_table(("", "what", "decision", "of", "detail"), rows)
    if found.repaired:
        print(f"\nThe repairs are on record: reminders reconcile --show {found.run_id}")
    elif repair:
        print("\nNothing of it could be repaired here.")
    else:
        print("\n`reminders reconcile --audit --repair` makes what is missing.")

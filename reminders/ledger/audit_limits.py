"""What must hold of caps, of what waits for its turn under them, and of breakers."""

from __future__ import annotations

from reminders.ledger.audit_check import Check
from reminders.ledger.rate_rules import WAITS

LIMITS: tuple[Check, ...] = (
    Check(
        "turn_without_cap",
        "What waits for its turn waits under a cap that is on record and covers it.",
        "live",
        f"""
SELECT d.id, d.delivery_key, 'waits for its turn at ' || d.turn_at || ' under ' || d.rate_id || ', which ' ||
       CASE WHEN z.id IS NULL THEN 'is on no record' ELSE 'does not cover it' END
FROM {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id LEFT JOIN {{s}}.rates z ON z.id = d.rate_id
WHERE {WAITS} AND (z.id IS NULL OR z.tenant_id <> r.tenant_id OR z.channel <> r.channel OR z.destination_id <> r.destination_id)""",
        "It is looked at again at its turn; `reminders reschedule ID --due-at +1s` does so now.",
    ),
    Check(
        "turn_after_removal",
        "Once a cap is removed or replaced, the scan wakes what waited for it.",
        "live",
        f"""
SELECT d.id, d.delivery_key, 'waits for its turn at ' || d.turn_at || ' under ' || z.id || ', removed at ' || z.removed_at
FROM {{s}}.due d JOIN {{s}}.rates z ON z.id = d.rate_id
WHERE {WAITS} AND z.removed_at <= :stale""",
        "Does a scanner run (`reminders status`)? `reminders scan` wakes it now; if it does not, somebody's open transaction "
        "holds the row (`pg_stat_activity`).",
    ),
    Check(
        "wait_without_bound",
        "All waiting is bounded: what waits for its turn has a time at which it is given up.",
        "live",
        f"""
SELECT d.id, d.delivery_key, 'waits since ' || d.waits_since || ' for its turn at ' || d.turn_at || ', and is never given up'
FROM {{s}}.due d WHERE {WAITS} AND d.give_up_at IS NULL""",
        "A fault of ours: please report it. `reminders reschedule ID --due-at +1s` brings it back.",
    ),
    Check(
        "calls_beyond_cap",
        "No more claims are open at once than a cap allows that has been set for a while.",
        "live",
        """
SELECT NULL::uuid, NULL::text, 'cap ' || z.id || ' allows ' || z.concurrent || ' calls at once; ' || count(*) || ' are open'
FROM {s}.rates z
JOIN {s}.reminders r ON z.tenant_id = r.tenant_id OR z.channel = r.channel OR z.destination_id = r.destination_id
JOIN {s}.due d ON d.id = r.id
WHERE z.removed_at IS NULL AND z.concurrent IS NOT NULL AND z.set_at <= :stale AND d.status = 'sending' AND d.wake_at > :now
GROUP BY z.id, z.concurrent HAVING count(*) > z.concurrent""",
        "Do workers of an earlier release run, which know no caps? Deploy them anew.",
    ),
    Check(
        "breaker_without_end",
        "A breaker that is not closed has opened with a hold that ends.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'destination ' || p.id || ': its breaker opened at ' || p.breaker_opened_at || ' without a hold'
FROM {s}.destinations p WHERE p.breaker_opened_at IS NOT NULL AND p.hold_until IS NULL""",
        "`reminders destination release ID` closes it.",
    ),
)
"""Checks of `rates`, of rows of `due` that wait under them, and of breakers."""

"""What must hold of tenants: nothing is claimed while they are not live, and the ledger of shadows tells what was not sent."""

from __future__ import annotations

from reminders.ledger.audit_check import GRACE, Check

# The time of a change is that of its statement; claims that began before it may still have committed.
_LATE = f"interval '{GRACE:g} seconds'"

TENANTS: tuple[Check, ...] = (
    Check(
        "off_without_hold",
        "A tenant is held by a pause of its mode exactly while it is off, and by one only.",
        "everything",
        """
SELECT NULL::uuid, NULL, 'tenant ' || COALESCE(p.tenant_id, z.tenant_id) || ' is ' || COALESCE(p.mode, 'not known') ||
       ', and held by ' || COALESCE(z.number, 0) || ' pauses of its mode'
FROM (SELECT tenant_id, mode FROM {s}.tenant_policies WHERE channel = '' AND mode IS NOT NULL) p
FULL JOIN (SELECT tenant_id, count(*) AS number FROM {s}.pauses WHERE by_mode AND ended_at IS NULL GROUP BY tenant_id) z
     ON z.tenant_id = p.tenant_id
WHERE COALESCE(z.number, 0) <> CASE WHEN p.mode = 'off' THEN 1 ELSE 0 END""",
        "`reminders tenant set TENANT --mode live`, and the mode that is meant after it, put the two in step; a second pause "
        "of the same tenant is ended by hand.",
    ),
    Check(
        "claim_while_not_live",
        "No claim is taken while its tenant is off or in shadow. (The grace is for claims that began before.)",
        "claimed",
        f"""
SELECT r.id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', ' || c.mode || ' since ' || c.changed_at
FROM {{s}}.tenant_changes c
JOIN {{s}}.reminders r ON r.tenant_id = c.tenant_id
JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE c.mode <> 'live' AND n.claimed_at >= :since AND n.claimed_at > c.changed_at + {_LATE}
  AND NOT EXISTS (SELECT 1 FROM {{s}}.tenant_changes l
                  WHERE l.tenant_id = c.tenant_id AND l.changed_at > c.changed_at AND l.changed_at <= n.claimed_at)""",
        "It was sent, or nearly so, although somebody had turned its tenant off or to shadow: see whether a worker of a "
        "release before migration 0018 still runs.",
    ),
    Check(
        "shadowed_without_record",
        "What is shadowed is in the ledger of shadows under its key.",
        "ended",
        """
SELECT r.id, r.delivery_key, 'shadowed at ' || r.finished_at
FROM {s}.reminders r LEFT JOIN {s}.shadow_deliveries w ON w.delivery_key = r.delivery_key
WHERE r.status = 'shadowed' AND r.finished_at >= :since AND w.delivery_key IS NULL""",
        "Nobody can tell what would have been sent: `reminders shadow release ID` sends it, if it is still wanted.",
    ),
    Check(
        "claim_after_shadow",
        "Under a key that was shadowed no claim is taken afterwards.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', shadowed at ' || w.decided_at
FROM {s}.notification_deliveries n JOIN {s}.shadow_deliveries w ON w.delivery_key = n.delivery_key
WHERE n.claimed_at >= :since AND n.claimed_at > w.decided_at AND w.decision <> 'expired'""",
        "It was sent without its release, perhaps by the previous system too: ask the receiver, and tell whoever got two.",
    ),
    Check(
        "shadow_of_nothing",
        "The ledger of shadows tells of reminders that exist.",
        "everything",
        """
SELECT w.reminder_id, w.delivery_key, 'decided at ' || w.decided_at || ', and there is no such reminder'
FROM {s}.shadow_deliveries w LEFT JOIN {s}.reminders r ON r.id = w.reminder_id WHERE r.id IS NULL""",
        "The reminder was deleted by hand, and could be scheduled anew: restore it from a backup.",
    ),
)
"""Checks of `tenant_policies`, `tenant_changes` and `shadow_deliveries`."""

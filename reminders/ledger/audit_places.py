"""What must hold of holds and of destinations that are disabled."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

PLACES: tuple[Check, ...] = (
    Check(
        "hold_too_long",
        "A hold of a destination, or of a tenant's channel, ends within a day.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, 'destination ' || id || ' is held until ' || hold_until
FROM {s}.destinations WHERE hold_until > :now + interval '25 hours'
UNION ALL
SELECT NULL, NULL, 'channel ' || channel || ' of tenant ' || tenant_id || ' is held until ' || hold_until
FROM {s}.channel_holds WHERE hold_until > :now + interval '25 hours'""",
        "Its reminders are given up before it ends: `reminders destination release ID`, or `reminders tenant release TENANT "
        "--channel CHANNEL`. A database clock that was set back shows the same.",
    ),
    Check(
        "claim_while_disabled",
        "No claim is taken for a destination while it is disabled.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', disabled since ' || p.disabled_at
FROM {s}.destinations p JOIN {s}.reminders r ON r.destination_id = p.id
JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE n.claimed_at >= :since AND n.claimed_at > p.disabled_at + interval '10 seconds'""",
        "It was sent where an operator, or the far side itself, had said that nothing more must be. If nobody changed "
        "`disabled_at` by hand, report it as a fault of reminders.",
    ),
)
"""Checks of what is known of places."""

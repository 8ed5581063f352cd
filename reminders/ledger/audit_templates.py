"""What must hold of templates and of the versions that deliveries have pinned."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

TEMPLATES: tuple[Check, ...] = (
    Check(
        "pinned_template_gone",
        "The version of a template that a delivery has pinned is in the ledger.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'template ' || n.template_id
FROM {s}.notification_deliveries n LEFT JOIN {s}.templates v ON v.id = n.template_id
WHERE n.claimed_at >= :since AND n.template_id IS NOT NULL AND v.id IS NULL""",
        "What was sent can no longer be told, and a later attempt ends as `template_gone`. Versions are never deleted by "
        "reminders: bring the row back from a backup.",
    ),
    Check(
        "foreign_template_pinned",
        "A delivery has pinned a template of its own tenant or of all tenants, and of its kind and channel.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'template ' || n.template_id || ', version ' || v.version
FROM {s}.notification_deliveries n
JOIN {s}.templates v ON v.id = n.template_id
JOIN {s}.reminders r ON r.id = n.reminder_id
WHERE n.claimed_at >= :since
  AND (v.tenant_id NOT IN ('', r.tenant_id) OR v.kind <> r.kind OR v.channel <> r.channel)""",
        "Somebody may have been written to in another's words. If nobody changed `template_id` by hand, report it as a fault "
        "of reminders.",
    ),
)
"""Checks of templates."""

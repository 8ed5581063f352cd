"""What must hold of erasures: they come to an end, and leave nothing of what was erased."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

ERASURES: tuple[Check, ...] = (
    Check(
        "erased_in_part",
        "Of a reminder that was erased neither address nor data, reference, slot or request is left.",
        "ended",
        """
SELECT r.id, r.delivery_key, 'erased at ' || r.erased_at || ', and something of it is there'
FROM {s}.reminders r
WHERE r.erased_at IS NOT NULL AND r.finished_at >= :since
  AND (r.destination <> '' OR r.data <> '{}' OR r.reference IS NOT NULL OR r.slot <> '' OR r.request_hash <> {s}.erased_hash())""",
        "Somebody has changed the row by hand: empty these columns again.",
    ),
    Check(
        "erasure_not_finished",
        "An erasure is finished within a day.",
        "everything",
        """
SELECT NULL::uuid, NULL, 'erasure ' || id || ' of ' || user_token || ' of tenant ' || tenant_id || ' has begun at ' || started_at
FROM {s}.erasures WHERE finished_at IS NULL AND started_at < :now - interval '1 day'""",
        "`reminders erase` with the same user finishes it, and says what it waits for.",
    ),
)
"""Checks of what `reminders erase` has left."""

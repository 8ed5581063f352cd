"""What must hold of consent: nothing is claimed against it, and what ended by it says by which word."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from reminders.calendar.quiet_hours import Quiet, QuietHours, standing_at
from reminders.domain.errors import InvalidInput
from reminders.ledger.audit_check import GRACE, Check

# The time of a word is that of its statement; its transaction may have committed later.
_LATE = f"interval '{GRACE:g} seconds'"


def _claimed_in_quiet_hours(row: tuple[Any, ...]) -> str | None:
    _, _, claimed_at, zone, start, end = row
    hours = QuietHours(start, end)
    try:
        standing = standing_at(claimed_at, zone, hours)
    except InvalidInput:
        return None
    # What is worked out just before the window begins may be claimed just after.
    if not isinstance(standing, Quiet) or not isinstance(_shortly_before(claimed_at, zone, hours), Quiet):
        return None
    return f"claimed at {claimed_at.isoformat()}, and it is quiet from {start:%H:%M} to {end:%H:%M} in {zone}"


def _shortly_before(claimed_at: datetime, zone: str, hours: QuietHours) -> object:
    return standing_at(claimed_at - timedelta(seconds=1), zone, hours)


def _claimed_while_suppressed(subject: str) -> str:
    return f"""
SELECT r.id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', suppressed since ' || x.suppressed_at ||
       ' by ' || x.id
FROM {{s}}.suppressions x
JOIN {{s}}.reminders r ON r.tenant_id = x.tenant_id AND r.{subject} = x.{subject} AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind)
JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE n.claimed_at >= :since AND n.claimed_at > x.suppressed_at + {_LATE} AND n.claimed_at < COALESCE(x.lifted_at, 'infinity')"""


CONSENT: tuple[Check, ...] = (
    Check(
        "claim_while_suppressed",
        "No claim is taken while a suppression of its user or destination stands, over its channel and of its kind. (The "
        "grace is for the transaction that said so.)",
        "claimed",
        " UNION ALL ".join(_claimed_while_suppressed(subject) for subject in ("user_id", "destination_id")),
        "It was sent, or nearly so, to somebody who is not to be sent it: tell who is responsible for consent, with what "
        "`reminders show ID` says. A transaction that said so and stayed open for longer than the grace shows the same.",
    ),
    Check(
        "claim_in_quiet_hours",
        "No claim is taken in the quiet hours that its user has had since before, unless its kind is critical.",
        "claimed",
        f"""
SELECT r.id::text, n.delivery_key, n.claimed_at, u.zone, u.quiet_from, u.quiet_to
FROM {{s}}.recipients u JOIN {{s}}.reminders r ON r.tenant_id = u.tenant_id AND r.user_id = u.user_id
JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {{s}}.kind_policies k ON k.tenant_id = r.tenant_id AND k.kind = r.kind
WHERE u.quiet_from IS NOT NULL AND n.claimed_at >= :since AND n.claimed_at > u.changed_at + {_LATE}
  AND k.critical IS NOT TRUE AND COALESCE(n.claimed_at > k.said_at + {_LATE}, true) AND n.on_unknown <> 'look_up'""",
        "Somebody was reached at night: see whether the workers have the zone database of this release. If nobody changed "
        "`clear_until` of `recipients` by hand, report it as a fault of reminders.",
        judge=_claimed_in_quiet_hours,
    ),
    Check(
        "suppressed_by_nothing",
        "What ended as suppressed names a suppression or a refusing preference that is on record and covers it.",
        "ended",
        """
SELECT r.id, r.delivery_key, 'suppressed at ' || r.finished_at || ' by ' || COALESCE(r.suppressed_by::text, 'nothing')
FROM {s}.reminders r
WHERE r.status = 'suppressed' AND r.finished_at >= :since
  AND NOT EXISTS (
      SELECT 1 FROM {s}.suppressions x WHERE x.id = r.suppressed_by AND x.tenant_id = r.tenant_id
        AND (x.user_id IN (r.user_id, {s}.erased_user(r.tenant_id, r.user_id)) OR x.destination_id = r.destination_id OR r.erased_at IS NOT NULL) AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind))
  AND NOT EXISTS (
      SELECT 1 FROM {s}.preferences f WHERE f.id = r.suppressed_by AND NOT f.allowed AND f.tenant_id = r.tenant_id
        AND f.user_id IN (r.user_id, {s}.erased_user(r.tenant_id, r.user_id)) AND f.channel IN ('', r.channel) AND f.kind IN ('', r.kind))""",
        "Nobody can say why it was not sent: `reminders reschedule ID --due-at +1m` sends it, if it is still wanted.",
    ),
    Check(
        "quiet_for_too_long",
        "Nothing waits for the end of quiet hours for longer than two days.",
        "live",
        """
SELECT d.id, d.delivery_key, 'waits for the end of quiet hours, and wakes at ' || d.wake_at
FROM {s}.due d WHERE d.status = 'pending' AND d.quiet_until = d.wake_at AND d.wake_at > :now + interval '50 hours'""",
        "`reminders reschedule ID --due-at +1m` has it looked at anew. A database clock that was set back shows the same.",
    ),
)
"""Checks of claims and ends against recipients, preferences and suppressions."""

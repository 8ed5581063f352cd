"""What must hold of everything that a pause holds: somebody said so, and it is let go once that has ended."""

from __future__ import annotations

from reminders.ledger.audit_check import Check
from reminders.ledger.pause_rules import ALIKE, COVERS
from reminders.ledger.releasing import GOING

HOLDS: tuple[Check, ...] = (
    Check(
        "never_wakes",
        "Of what is live only what is held has no time at which it is looked at again.",
        "live",
        """
SELECT d.id, d.delivery_key, d.status || ', and wakes at ' || COALESCE(d.wake_at::text, 'no time')
FROM {s}.due d WHERE (d.status = 'held') <> (d.wake_at IS NULL) OR (d.status = 'held') <> (d.hold_id IS NOT NULL)""",
        "A constraint of `due` is gone: no scan finds the row. Set `wake_at` to now, and make the constraint again.",
    ),
    Check(
        "held_without_pause",
        "What is held is held by a pause that is on record, and covered it.",
        "live",
        """
SELECT d.id, d.delivery_key, 'held since ' || d.held_at || ' by ' || d.hold_id || ', which ' ||
       CASE WHEN z.id IS NULL THEN 'is on no record' ELSE 'does not cover it' END
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id LEFT JOIN {s}.pauses z ON z.id = d.hold_id
WHERE d.status = 'held' AND (z.id IS NULL OR z.tenant_id <> r.tenant_id OR z.channel <> r.channel OR z.kind <> r.kind
                             OR z.destination_id <> r.destination_id)""",
        "Nobody can resume it: `reminders reschedule ID --due-at +1m` brings it back.",
    ),
    Check(
        "held_after_resume",
        "Once a pause has ended, the scan lets go what it held: the next of it within the grace after its turn, if turns are taken.",
        "live",
        f"""
SELECT d.id, d.delivery_key, 'held by ' || z.id || ', which ended at ' || z.ended_at || '; let go was last at ' ||
       COALESCE(z.released_at::text, 'no time')
FROM {{s}}.due d JOIN {{s}}.pauses z ON z.id = d.hold_id
CROSS JOIN LATERAL (
    SELECT max(GREATEST(y.next_at, y.released_at)) AS latest FROM {{s}}.pauses y
    WHERE y.ended_at IS NOT NULL AND (y.paused_at, y.id) < (z.paused_at, z.id) AND {ALIKE}
) first
CROSS JOIN LATERAL (
    SELECT max(COALESCE(y.ended_at, 'infinity')) AS latest FROM {{s}}.pauses y
    WHERE z.rate IS NOT NULL AND y.drain_until IS NULL AND y.id <> z.id AND {COVERS}
) covered
WHERE d.status = 'held' AND z.stopped_at IS NULL
  AND GREATEST(z.ended_at, z.next_at, z.released_at, first.latest, covered.latest) <= :stale
  AND NOT EXISTS (SELECT 1 FROM {{s}}.due d JOIN {{s}}.pauses y ON y.id = d.let_go_by
                  WHERE {GOING} AND (y.paused_at, y.id) <= (z.paused_at, z.id) AND {ALIKE})""",
        "Does a scanner run (`reminders status`)? `reminders scan` lets it go now; if it does not, somebody's open "
        "transaction holds the row or the pause (`pg_stat_activity`).",
    ),
)
"""Checks of held rows of `due` against `pauses`."""

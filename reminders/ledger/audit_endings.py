"""What must hold of how things ended: reminder, delivery, attempts and dead letters tell one story."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

ENDINGS: tuple[Check, ...] = (
    Check(
        "delivery_disagrees",
        "A reminder has ended as its delivery has. (Under a claim, or until its end if the outcome was recorded alone, the "
        "delivery is ahead.)",
        "ended",
        """
SELECT r.id, r.delivery_key, 'the reminder is ' || r.status || ', its delivery ' || COALESCE(n.status, 'missing')
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE (r.status = 'live' OR r.finished_at >= :since) AND d.status IS DISTINCT FROM 'sending'
  AND CASE COALESCE(n.status, 'missing')
      WHEN 'sending' THEN false
      WHEN 'missing' THEN r.status = 'delivered' OR r.status = 'dead' AND NOT EXISTS (
          SELECT 1 FROM {s}.dead_letters l WHERE l.reminder_id = r.id AND l.delivery_key = r.delivery_key AND l.attempts = 0)
      WHEN 'retrying' THEN r.status <> 'live'
      WHEN 'unknown' THEN r.status NOT IN ('dead', 'cancelled')
      WHEN 'expired' THEN r.status NOT IN ('expired', 'cancelled')
      WHEN 'superseded' THEN r.status NOT IN ('shadowed', 'cancelled')
      ELSE r.status <> n.status END""",
        "Read `reminders show ID` and the attempts; where the delivery is `delivered` and the reminder still lives, cancel "
        "the reminder before it is sent again.",
    ),
    Check(
        "delivered_under_old_key",
        "A key that was given up for a newer one has neither delivered nor a retry waiting.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'the old key is ' || n.status || ', the reminder goes on under ' || r.delivery_key
FROM {s}.notification_deliveries n JOIN {s}.reminders r ON r.id = n.reminder_id
WHERE n.claimed_at >= :since AND r.delivery_key <> n.delivery_key AND n.status IN ('delivered', 'retrying')""",
        "It was moved although it had been, or might still be, sent: if it is live, cancel it unless it is meant twice.",
    ),
    Check(
        "delivered_without_attempt",
        "A delivered reminder has an attempt that delivered, a success reported late, or a letter that a person resolved as delivered.",
        "ended",
        """
SELECT r.id, r.delivery_key, 'delivered at ' || r.finished_at || ', and no attempt says so'
FROM {s}.reminders r JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE r.status = 'delivered' AND n.status = 'delivered' AND r.finished_at >= :since AND n.confirmed_late_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM {s}.delivery_attempts a WHERE a.delivery_key = r.delivery_key AND a.outcome = 'delivered')
  AND NOT EXISTS (SELECT 1 FROM {s}.dead_letters l WHERE l.reminder_id = r.id AND l.delivery_key = r.delivery_key
                  AND l.resolution = 'delivered')""",
        "Nothing proves that it was sent: ask the receiver for the key.",
    ),
    Check(
        "uncertain_but_closed",
        "What is uncertain ends in review as `unknown`, never quietly.",
        "ended",
        """
SELECT n.reminder_id, n.delivery_key, 'uncertain since ' || n.uncertain_since || ', and the delivery is ' || n.status ||
       COALESCE(', for review as ' || n.letter_kind, '') || COALESCE(', the reminder ' || r.status, '')
FROM {s}.notification_deliveries n LEFT JOIN {s}.reminders r ON r.delivery_key = n.delivery_key AND r.id = n.reminder_id
WHERE n.uncertain_since IS NOT NULL AND n.finished_at >= :since
  AND (n.status IN ('delivered', 'cancelled', 'expired', 'suppressed', 'superseded') OR n.letter_kind = 'destination'
       OR r.status IN ('delivered', 'cancelled', 'expired', 'suppressed', 'shadowed'))""",
        "Somebody may have got what counts as not sent: ask the receiver for the key, and tell the owner.",
    ),
    Check(
        "dead_without_letter",
        "A dead reminder has a letter under its key, and the latest one is not redriven.",
        "ended",
        """
SELECT r.id, r.delivery_key, 'dead since ' || r.finished_at || ', and its latest letter is ' || COALESCE(l.state, 'missing')
FROM {s}.reminders r LEFT JOIN LATERAL (
    SELECT state FROM {s}.dead_letters l WHERE l.reminder_id = r.id AND l.delivery_key = r.delivery_key
    ORDER BY l.opened_at DESC, l.id DESC LIMIT 1) l ON true
WHERE r.status = 'dead' AND r.finished_at >= :since AND (l.state IS NULL OR l.state = 'redriven')""",
        "Nobody was told, and no redrive finds it: `reminders reschedule ID --due-at +1m` sends it under a new key, unless "
        "`reminders show ID` calls an attempt unknown.",
    ),
    Check(
        "letter_without_dead",
        "The reminder of an open letter is dead, and under the letter's key.",
        "letters",
        """
SELECT l.reminder_id, l.delivery_key, 'letter ' || l.id || ' is open, and the reminder is ' || r.status ||
       CASE WHEN r.delivery_key <> l.delivery_key THEN ' under ' || r.delivery_key ELSE '' END
FROM {s}.dead_letters l JOIN {s}.reminders r ON r.id = l.reminder_id
WHERE l.state = 'open' AND (r.status <> 'dead' OR r.delivery_key <> l.delivery_key)""",
        "A redrive leaves it alone, so it stays: close the letter by hand, with actor and reason.",
    ),
    Check(
        "two_open_letters",
        "A reminder has one open letter at most.",
        "letters",
        """
SELECT l.reminder_id, min(l.delivery_key), count(*) || ' letters are open'
FROM {s}.dead_letters l WHERE l.state = 'open' GROUP BY l.reminder_id HAVING count(*) > 1""",
        "The unique index `dead_letters_one_open` is gone: close all letters but the latest, and make it again.",
    ),
    Check(
        "without_reminder",
        "Deliveries and letters belong to reminders that exist.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, 'a delivery that is ' || n.status
FROM {s}.notification_deliveries n
WHERE n.claimed_at >= :since AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = n.reminder_id)
UNION ALL
SELECT l.reminder_id, l.delivery_key, 'letter ' || l.id || ', ' || l.state
FROM {s}.dead_letters l
WHERE (l.state = 'open' OR l.opened_at >= :since) AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = l.reminder_id)""",
        "The reminder was deleted by hand, and could be scheduled and sent anew: restore it from a backup.",
    ),
    Check(
        "made_again",
        "Nothing that was purged, or is marked for it, is there a second time.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'has the identity of ' || k.reminder_id || ', ' ||
       COALESCE('purged at ' || k.purged_at, 'marked to be purged')
FROM {s}.keys_seen k JOIN {s}.reminders r ON r.identity_key = k.identity_key
WHERE r.id <> k.reminder_id OR k.purged_at IS NOT NULL""",
        "It is sent a second time, under the same key: cancel it while it lives, and tell whoever got two.",
    ),
    Check(
        "marked_but_gone",
        "A reminder that is marked to be purged, and not yet purged, is there.",
        "everything",
        """
SELECT k.reminder_id, k.delivery_key, 'ended as ' || k.status || ' at ' || k.finished_at || ', and is gone'
FROM {s}.keys_seen k
WHERE k.purged_at IS NULL AND NOT EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = k.reminder_id)""",
        "It was deleted by hand; its key is kept, so nothing is sent again. Set `purged_at` of its row in `keys_seen`.",
    ),
)
"""Checks of final states against each other, and against what is remembered of those that were purged."""

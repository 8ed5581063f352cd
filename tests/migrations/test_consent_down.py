"""0010 taken back: what was suppressed is not sent by the older release, and what waits for quiet hours goes on."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

SUPPRESSED = """
WITH gone AS (DELETE FROM reminders.due WHERE id = '{id}'),
delivery AS (
    INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
        claimed_until, worker, on_unknown, body_format, finished_at)
    VALUES ('{id}', '{id}', 'suppressed', 1, '{id}', now(), now() + interval '1 s', 'w', 'repeat', 1, now())
)
UPDATE reminders.reminders SET status = 'suppressed', finished_at = now(), suppressed_by = id, suppressed_reason = 'r' WHERE id = '{id}'"""
QUIET = "UPDATE reminders.due SET wake_at = now() + interval '5 hours', quiet_until = now() + interval '5 hours' WHERE id = '{id}'"


def test_taken_back_what_was_suppressed_is_cancelled_and_what_is_quiet_waits(live):
    before, _ = migrate(live.url, "reminders"), None
    assert before[1] >= "0010"
    suppressed, quiet = live.old_reminder(), live.old_reminder()
    live.query(SUPPRESSED.format(id=suppressed))
    live.query(QUIET.format(id=quiet))
    assert live.query("SELECT suppressed_reason, status FROM reminders.reminders_v1 ORDER BY 1") == [
        ("r", "suppressed"),
        (None, "pending"),
    ]
    migrate(live.url, "reminders", "0006")
    shown = "SELECT r.status, n.status FROM reminders.reminders_v1 r LEFT JOIN reminders.notification_deliveries n USING (delivery_key) ORDER BY 1"
    assert live.query(shown) == [("cancelled", "cancelled"), ("pending", None)]
    assert live.query("SELECT wake_at > now() + interval '4 hours' FROM reminders.due") == [(True,)]
    assert migrate(live.url, "reminders")[1] == before[1]
    assert live.query("SELECT suppressed_by, quiet_until FROM reminders.reminders_v1") == [(None, None), (None, None)]

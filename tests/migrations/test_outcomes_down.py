"""0003 taken back on a ledger in use: what the older release has no word for becomes what it would have done."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

CLAIMED = """
INSERT INTO reminders.notification_deliveries
    (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, claimed_until, worker, on_unknown, body_format, retry_at)
VALUES ('key', '{id}', 'retrying', 1, '{id}', now(), now() + interval '30 seconds', 'w', 'look_up', 1, now())"""
ATTEMPT = """
INSERT INTO reminders.delivery_attempts
    (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
VALUES ('key', 1, now(), '{id}', 'w', 'blocked', 'http_429', '', '')"""
PLACES = """
INSERT INTO reminders.destinations (id, tenant_id, channel, address, deduplicates, hold_until, hold_reason)
VALUES (gen_random_uuid(), 't', 'log', 'held', NULL, now(), 'asked'), (gen_random_uuid(), 't', 'log', 'said', false, NULL, NULL)"""
SEEN = """
SELECT (SELECT on_unknown FROM reminders.notification_deliveries), (SELECT outcome FROM reminders.delivery_attempts),
       (SELECT last_outcome FROM reminders.reminders), (SELECT string_agg(address, ',') FROM reminders.destinations)"""


def test_it_goes_down_and_up_again_with_rows_of_every_new_kind(live):
    migrate(live.url, "reminders", "0003")
    made = live.old_reminder()
    for statement in (CLAIMED, ATTEMPT, PLACES, "UPDATE reminders.reminders SET last_outcome = 'blocked'"):
        live.query(statement.format(id=made))
    live.query("INSERT INTO reminders.channel_holds VALUES ('t', 'log', now(), 'refused')")
    live.query("INSERT INTO reminders.tenant_policies VALUES ('t', '', 'review', '{5,30}')")
    migrate(live.url, "reminders", "0002")
    assert live.query(SEEN) == [("review", "retry", "retry", "said")]
    migrate(live.url, "reminders", "0003")
    assert live.query(SEEN) == [("review", "retry", "retry", "said")]

"""0019 on a ledger in use: it goes on where it was cut off; taken back, what waited wakes at its turn and all else is as before."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

WAITS = """
UPDATE reminders.due SET rate_id = gen_random_uuid(), turn_at = now() + interval '1 hour', wake_at = now() + interval '1 hour', waits_since = now()"""
SEEN = "SELECT status, wake_at BETWEEN now() + interval '59 min' AND now() + interval '1 hour' FROM reminders.due"
NOTICE = """
INSERT INTO reminders.notices (id, kind, tenant_id, channel, destination_id, reason, noticed_at)
VALUES (gen_random_uuid(), 'breaker_opened', 't', 'log', gen_random_uuid(), 'r', now())"""
BREAKER = """
INSERT INTO reminders.destinations (id, tenant_id, channel, address, breaker_opened_at, breaker_times, hold_until, hold_reason)
VALUES (gen_random_uuid(), 't', 'log', 'a', now(), 1, now(), 'r')"""
DRAIN = """
INSERT INTO reminders.pauses (id, tenant_id, reason, actor, host, ended_at, ended_by, ended_host, rate, drain_until)
VALUES (gen_random_uuid(), 't', 'r', 'a', 'h', now(), 'a', 'h', 1, now())"""
VALID = "SELECT conname FROM pg_constraint WHERE connamespace = 'reminders'::regnamespace AND NOT convalidated AND conname LIKE ANY (ARRAY['due_waits%', '%breaker', 'notices_kind%', 'pauses_drain'])"


def test_taken_back_with_caps_breakers_and_drains_in_use(live):
    migrate(live.url, "reminders", "0018")
    live.old_reminder()
    migrate(live.url, "reminders", "0019")
    assert live.query(VALID) == []
    for statement in (WAITS, NOTICE, BREAKER, DRAIN):
        live.query(statement)
    migrate(live.url, "reminders", "0018")
    assert live.query(SEEN) == [("pending", True)]
    assert live.query("SELECT count(*) FROM reminders.notices") == [(0,)]
    assert live.query("SELECT hold_until IS NOT NULL FROM reminders.destinations WHERE address = 'a'") == [(True,)]
    migrate(live.url, "reminders", "0019")
    assert live.query("SELECT count(*) FROM reminders.rates") == [(0,)]


def test_cut_off_after_its_first_commit_it_goes_on(live):
    migrate(live.url, "reminders", "0019")
    (before,) = live.query("SELECT version_num FROM reminders.schema_version")
    assert before == ("0019",)
    live.query("UPDATE reminders.schema_version SET version_num = '0018'")
    live.query("DROP INDEX reminders.due_turns")
    live.query("DROP INDEX reminders.pauses_drains")
    assert migrate(live.url, "reminders", "0019")[1] == "0019"
    found = "SELECT count(*) FROM pg_indexes WHERE indexname IN ('due_turns', 'pauses_drains', 'destinations_limited')"
    assert live.query(found) == [(3,)]
    assert live.query(VALID) == []

"""0018 on a ledger in use: its tenants are live and `main`'s; taken back, what is off or in shadow is not sent either."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

MODES = "SELECT tenant_id, mode, dispatcher FROM reminders.tenant_policies WHERE channel = '' ORDER BY 1"
VALID = """SELECT conname FROM pg_constraint
           WHERE conrelid IN ('reminders.tenant_policies'::regclass, 'reminders.pauses'::regclass) AND NOT convalidated"""


def test_the_tenants_that_there_are_stay_live_and_what_is_set_for_them_stays(live):
    migrate(live.url, "reminders", "0017")
    live.old_reminder()
    live.old_reminder()
    live.query(
        "INSERT INTO reminders.tenant_policies (tenant_id, channel, on_unknown) VALUES ('t', '', 'review'), ('u', 'log', 'review')"
    )
    migrate(live.url, "reminders", "0018")
    assert live.query(MODES) == [("t", "live", "main")]
    assert live.query("SELECT on_unknown FROM reminders.tenant_policies WHERE tenant_id = 't'") == [("review",)]
    assert live.query("SELECT dispatcher FROM reminders.new_tenants") == [("main",)]
    assert live.query(VALID) == []


def test_a_ledger_without_tenants_has_no_owner_of_new_ones_yet(live):
    migrate(live.url, "reminders", "0018")
    assert live.query("SELECT count(*) FROM reminders.new_tenants") == [(0,)]


def test_taken_back_what_is_off_or_in_shadow_is_paused(live):
    migrate(live.url, "reminders", "0018")
    live.query(
        "INSERT INTO reminders.tenant_policies (tenant_id, mode, dispatcher, epoch, on_unknown)"
        " VALUES ('a', 'live', 'main', 1, NULL), ('b', 'off', 'main', NULL, 'review'), ('c', 'shadow', 'main', NULL, NULL)"
    )
    live.query(
        "INSERT INTO reminders.pauses (id, tenant_id, reason, actor, host, by_mode) VALUES (gen_random_uuid(), 'b', 'r', 'a', 'h', true)"
    )
    migrate(live.url, "reminders", "0017")
    assert live.query("SELECT tenant_id, reason FROM reminders.pauses WHERE ended_at IS NULL ORDER BY 1") == [
        ("b", "r"),
        ("c", "was in shadow, which the release before 0018 does not know"),
    ]
    assert live.query("SELECT tenant_id, on_unknown FROM reminders.tenant_policies") == [("b", "review")]
    assert migrate(live.url, "reminders", "0018") == ("0017", "0018")


def test_cut_off_after_its_first_commit_it_goes_on(live):
    migrate(live.url, "reminders", "0018")
    live.query("UPDATE reminders.schema_version SET version_num = '0017'")
    live.query("DROP INDEX reminders.tenant_policies_handed_over")
    assert migrate(live.url, "reminders", "0018") == ("0017", "0018")
    assert live.query("SELECT count(*) FROM pg_indexes WHERE indexname = 'tenant_policies_handed_over'") == [(1,)]
    assert live.query(VALID) == []

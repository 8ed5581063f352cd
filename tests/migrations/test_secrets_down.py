"""0007 taken back and made again: what an operator said of the same places stays, and no mark is left behind."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

PLACES = """
INSERT INTO reminders.destinations (id, tenant_id, channel, address, deduplicates, secret_mark)
VALUES (gen_random_uuid(), 't', 'webhook', 'x', false, gen_random_uuid());
INSERT INTO reminders.tenant_policies (tenant_id, channel, on_unknown, secret_mark)
VALUES ('t', 'webhook', NULL, gen_random_uuid()), ('u', 'webhook', 'review', gen_random_uuid()), ('v', '', 'review', NULL)"""
SECRET = """INSERT INTO reminders.secrets (id, tenant_id, channel, ciphertext, key_fingerprint, fingerprint)
VALUES (gen_random_uuid(), 't', 'webhook', 'gAAAA' || repeat('x', 135), 'k', 'f')"""


def test_up_down_and_up_with_secrets_in_use(live):
    migrate(live.url, "reminders", "0007")
    live.query(PLACES)
    live.query(SECRET)
    assert migrate(live.url, "reminders", "0006") == ("0007", "0006")
    assert live.query("SELECT to_regclass('reminders.secrets'), to_regclass('reminders.secret_changes')") == [
        (None, None)
    ]
    assert live.query("SELECT deduplicates FROM reminders.destinations") == [(False,)]
    assert live.query("SELECT tenant_id FROM reminders.tenant_policies ORDER BY 1") == [("u",), ("v",)]
    assert migrate(live.url, "reminders", "0007") == ("0006", "0007")
    assert live.query("SELECT count(secret_mark) FROM reminders.destinations") == [(0,)]
    assert live.query("SELECT count(*) FROM reminders.secrets") == [(0,)]


def test_it_goes_up_while_destinations_are_written(live):
    """Columns without a default change no row: what an older release writes meanwhile stands."""
    migrate(live.url, "reminders", "0006")
    insert = "INSERT INTO reminders.destinations (id, tenant_id, channel, address) VALUES (gen_random_uuid(), 't', 'log', 'x')"
    live.query(insert)
    migrate(live.url, "reminders", "0007")
    live.query(insert)
    assert live.query("SELECT count(*), count(secret_mark) FROM reminders.destinations") == [(2, 0)]

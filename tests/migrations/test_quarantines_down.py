"""0025: for the older release a key is that of its version again."""

from __future__ import annotations

from reminders.ledger.migrations import migrate

NOW = "SELECT version, delivery_key = reminders.delivery_key(identity_key, version) FROM reminders.reminders WHERE id = '{}'"


def test_versions_are_those_of_their_keys_for_the_older_release(live):
    migrate(live.url, "reminders", "0025")
    kept, moved = (live.old_reminder(due="now() + interval '1 day'") for _ in range(2))
    for each in (kept, moved):
        live.query(
            f"UPDATE reminders.reminders SET version = 1, delivery_key = reminders.delivery_key(identity_key, 1) WHERE id = '{each}'"
        )
    live.query(f"UPDATE reminders.reminders SET version = 5000000, key_version = 1 WHERE id = '{kept}'")
    live.query(
        "UPDATE reminders.reminders SET version = 5000001, key_version = 1, delivery_key = reminders.delivery_key(identity_key, 5000001)"
        f" WHERE id = '{moved}'"
    )
    assert live.query(NOW.format(kept)) == [(5000000, False)]
    migrate(live.url, "reminders", "0024")
    assert live.query(NOW.format(kept)) == [(1, True)]
    assert live.query(NOW.format(moved)) == [(5000001, True)]
    assert migrate(live.url, "reminders", "0025") == ("0024", "0025")


def test_cut_off_before_it_is_validated_it_goes_on(live):
    migrate(live.url, "reminders", "0025")
    live.query("UPDATE reminders.schema_version SET version_num = '0024'")
    assert migrate(live.url, "reminders", "0025") == ("0024", "0025")
    validated = "SELECT convalidated FROM pg_constraint WHERE conname = 'reminders_key_version'"
    assert live.query(validated) == [(True,)]

"""A word about consent that no reminder can ever meet is refused: it would look as if it stood, and forbid nothing."""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import InvalidInput

WHO = {"tenant_id": "tenant-a", "reason": "unsubscribed"}
E164 = "must be spelled +4915112345678: numbers are not rewritten, since they identify"


@pytest.mark.parametrize(
    ("named", "field", "said"),
    [
        ({"destination": "+49 151 12345678", "channel": "sms"}, "destination", E164),
        ({"destination": " +4915112345678", "channel": "sms"}, "destination", E164),
        ({"destination": "nonsense", "channel": "email"}, "destination", "is not one e-mail address"),
        ({"destination": "Kim <kim@shop.example>", "channel": "email"}, "destination", "is not one e-mail address"),
        ({"destination": "shop.example/hook", "channel": "webhook"}, "destination", "must be an absolute URL"),
        ({"destination": "http://a:b@shop.example", "channel": "webhook"}, "destination", "user name or password"),
        ({"destination": "a@shop.example", "channel": "EMAIL"}, "channel", "'EMAIL' is not installed; known channels:"),
        ({"user_id": "u", "channel": "emial"}, "channel", "'emial' is not installed; known channels:"),
        ({"user_id": "u", "channel": b"email"}, "channel", "must be text, not bytes"),
    ],
)
def test_what_can_never_match_is_refused(world, named, field, said):
    with pytest.raises(InvalidInput) as caught:
        world.committed(reminders.suppress, **WHO, **named)
    assert caught.value.field == field
    assert said in caught.value.reason
    assert world.sql("SELECT count(*) FROM reminders.suppressions") == [(0,)]


@pytest.mark.parametrize(
    ("channel", "place"),
    [
        ("webhook", "https://10.0.0.7/hook"),
        ("webhook", "https://billing.internal/hook"),
        ("webhook", "http://127.0.0.1:8780/hook"),
        ("email", "kim@shop.test"),
    ],
)
def test_what_only_the_settings_forbid_can_be_suppressed(world, channel, place):
    assert world.committed(reminders.suppress, **WHO, channel=channel, destination=place).created


def test_a_user_is_whoever_schedule_says_blanks_included(world):
    for user in (" sue ", "sue"):
        made = world.schedule(user_id=user)
        world.published()
        world.committed(reminders.suppress, **WHO, user_id=user)
        assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "suppressed"


def test_a_preference_is_of_an_installed_channel_and_any_can_be_taken_back(world):
    who = {"tenant_id": "tenant-a", "user_id": "u"}
    with pytest.raises(InvalidInput, match=r"^channel: 'emial' is not installed"):
        world.committed(reminders.set_preference, **who, allowed=False, channel="emial")
    assert world.sql("SELECT count(*) FROM reminders.preferences") == [(0,)]
    world.committed(reminders.set_preference, **who, allowed=None, channel="emial")


def test_what_stands_under_another_spelling_can_still_be_lifted(world):
    world.sql(
        "INSERT INTO reminders.suppressions (id, tenant_id, user_id, channel, kind, reason, source, actor) "
        "VALUES (gen_random_uuid(), 'tenant-a', 'u', 'emial', '', 'r', 's', 'a')"
    )
    assert world.committed(reminders.unsuppress, **WHO, user_id="u", channel="emial")

"""Nobody is called for what is in shadow or off: it takes no turn and no token, asks no destination, and holds up nobody."""

from __future__ import annotations

import pytest

from integration.ledger.tenants import moded
from integration.ledger.test_ledger_admission import ScriptedTokens, admission
from integration.ledger.test_ledger_breaker import opened
from integration.ledger.test_ledger_rates import at, burst, capped, scan, waiting
from integration.ledger.world import ScriptedProvider
from reminders.domain.pauses import PauseScope

LOG = PauseScope(channel="log")
CLOCKS = "SELECT next_at FROM reminders.rates UNION ALL SELECT next_at FROM reminders.rate_tails"


def clocks(world):
    return world.sql(CLOCKS)


@pytest.mark.parametrize("scope", [LOG, PauseScope(tenant_id="quiet")], ids=["channel", "tenant"])
def test_what_is_in_shadow_takes_no_turn(world, scope):
    capped(world, scope, per_second=1.0, burst=1)
    before = clocks(world)
    moded(world, "shadow", "quiet")
    burst(world, "quiet", 20)
    messages = scan(world, 0)
    assert (len(messages), {message.caps for message in messages}) == (20, {()})
    assert (clocks(world), waiting(world)) == (before, [])
    tokens = ScriptedTokens()
    for each in messages:
        assert admission(world, tokens, now=at(world, 1))(each.reminder_id, each.delivery_key, each.caps) == "shadowed"
    assert tokens.asked == []


def test_messages_in_shadow_take_nobodys_place_under_a_cap_on_calls(world):
    capped(world, LOG, per_second=None, concurrent=2)
    moded(world, "shadow", "quiet")
    burst(world, "quiet", 5)
    assert len(scan(world, 0)) == 5
    loud = burst(world, "loud", 3)
    assert [message.reminder_id for message in scan(world, 1)] == [each.id for each in loud[:2]]


def test_calls_that_are_open_as_a_tenant_goes_to_shadow_keep_their_places(world):
    capped(world, LOG, per_second=None, concurrent=1)
    (made,) = burst(world, "quiet", 1)
    world.published()
    assert world.claim(made) is not None
    moded(world, "shadow", "quiet")
    burst(world, "loud", 1)
    assert world.published() == []


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_what_waits_for_its_turn_as_its_tenant_is_changed_waits_no_longer(world, mode):
    capped(world, LOG, per_second=None, concurrent=1)
    quiet = burst(world, "quiet", 10, age=90.0)
    burst(world, "loud", 3)
    # The one that goes is the quiet tenant's; the queue behind it begins with nine more.
    assert [message.reminder_id for message in scan(world, 0)] == [quiet[0].id]
    assert len(waiting(world)) == 12
    moded(world, mode, "quiet")
    assert len(waiting(world)) == 3
    sent = scan(world, 60)
    if mode == "off":
        assert world.sql("SELECT count(*) FROM reminders.due WHERE status = 'held'") == [(9,)]
    else:
        assert {message.reminder_id for message in sent} >= {each.id for each in quiet[1:]}


def test_a_message_whose_tenant_has_changed_to_shadow_waits_for_no_token(world):
    capped(world, LOG, burst=5)
    (made,) = burst(world, "quiet", 1)
    (message,) = world.published()
    assert message.caps
    moded(world, "shadow", "quiet")
    before = clocks(world)
    tokens, provider = ScriptedTokens(refuses=7.0), ScriptedProvider()
    assert admission(world, tokens, provider)(made.id, made.delivery_key, message.caps) == "shadowed"
    assert (provider.calls, clocks(world)) == ([], before)


def test_what_is_in_shadow_is_no_probe_and_waits_for_none(world):
    opened(world)
    moded(world, "shadow")
    fresh = [world.schedule() for _ in range(3)]
    now = world.lapse(40)
    messages = world.published(now)
    assert {each.id for each in fresh} <= {message.reminder_id for message in messages}
    provider = ScriptedProvider()
    for each in messages:
        assert world.deliver(provider, now=now)(each.reminder_id, each.delivery_key) == "shadowed"
    assert provider.calls == []
    kept = world.sql("SELECT probe_id, breaker_opened_at IS NOT NULL, breaker_times FROM reminders.destinations")
    assert kept == [(None, True, 1)]

"""A tenant's own policies: only ever stricter than what destinations promise, and its own delays between attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.ledger.world import AskedProvider, ScriptedProvider
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Retry, Unknown
from reminders.ledger.tenant_policies import known, set_policy

LOST = Unknown("timeout", "no answer")


def stamped(world, **wanted):
    return world.opened(world.schedule(**wanted)).on_unknown


@pytest.mark.parametrize("can_be_asked", [False, True])
@pytest.mark.parametrize("deduplicates", [False, True])
@pytest.mark.parametrize("for_all", [None, "look_up", "review"])
@pytest.mark.parametrize("for_channel", [None, "look_up", "review"])
def test_the_claim_stamps_what_is_strictest(world, can_be_asked, deduplicates, for_all, for_channel):
    world.look_ups = ("log",) if can_be_asked else ()
    if for_all:
        set_policy(world.database, "tenant-a", on_unknown=for_all)
    if for_channel:
        set_policy(world.database, "tenant-a", "log", on_unknown=for_channel)
    said = {for_all, for_channel} - {None}
    if "review" in said:
        expected = "review"
    elif deduplicates and not said:
        expected = "repeat"
    else:
        expected = "look_up" if can_be_asked else "review"
    assert stamped(world, deduplicates=deduplicates) == expected
    assert stamped(world, tenant_id="tenant-b") == "repeat"


def test_another_channels_word_does_not_count(world):
    set_policy(world.database, "tenant-a", "webhook", on_unknown="review", retry_delays=[1.0])
    claim = world.opened(world.schedule())
    assert (claim.on_unknown, claim.delays) == ("repeat", None)


def test_set_after_an_unknown_attempt_it_is_reviewed_instead_of_repeated(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    set_policy(world.database, "tenant-a", on_unknown="review")
    provider = ScriptedProvider()
    late = world.lapse(60)
    world.published(late)
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "dead"
    assert (world.letters(made.id), provider.calls) == ([("unknown", "open", "not_repeatable")], [])


def test_look_up_asks_although_the_destination_deduplicates(world):
    world.look_ups = ("log",)
    set_policy(world.database, "tenant-a", on_unknown="look_up")
    made = world.schedule()
    provider = AskedProvider(LOST)
    for seconds in (0, 60):
        now = world.lapse(seconds)
        world.published(now)
        answer = world.deliver(provider, now=now)(made.id, made.delivery_key)
    assert (answer, len(provider.calls), len(provider.asked)) == ("delivered", 1, 1)


def test_the_channels_delays_go_before_the_tenants_and_these_before_the_installations(world):
    set_policy(world.database, "tenant-a", retry_delays=[60.0, 600.0])
    made = [world.schedule(), world.schedule(tenant_id="tenant-b")]
    now = world.lapse(1)
    for each in made:
        world.finalize(world.opened(each), Retry("busy", ""), now=now)
    waits = [world.column("due", "wake_at", each.id) - now for each in made]
    assert waits == [timedelta(seconds=60), timedelta(seconds=5)]
    set_policy(world.database, "tenant-a", "log", retry_delays=[7.0])
    claim = world.opened(made[0], now=world.lapse(120))
    assert claim.delays == (7.0,)
    world.finalize(claim, Retry("busy", ""), now=now)
    assert world.column("due", "wake_at", made[0].id) - now == timedelta(seconds=7)


def test_a_claim_whose_reply_was_lost_is_found_with_its_delays(world):
    set_policy(world.database, "tenant-a", retry_delays=[60.0])
    made = world.schedule()
    world.published()
    token = uuid7()
    taken = world.claims().claim(made.id, made.delivery_key, token, 30.0)
    assert world.claims().claimed_with(made.id, made.delivery_key, token) == taken
    assert taken.delays == (60.0,)


def test_what_is_left_out_stays_and_what_is_taken_back_is_gone(world):
    set_policy(world.database, "tenant-a", on_unknown="review", retry_delays=[5.0])
    set_policy(world.database, "tenant-a", on_unknown="look_up")
    (row,) = known(world.database, tenant="tenant-a", limit=9)
    assert (row.channel, row.on_unknown, row.retry_delays) == (None, "look_up", [5.0])
    set_policy(world.database, "tenant-a", retry_delays="default")
    (row,) = known(world.database, tenant=None, limit=9)
    assert (row.on_unknown, row.retry_delays) == ("look_up", None)
    set_policy(world.database, "tenant-a", on_unknown="default")
    set_policy(world.database, "tenant-b", on_unknown="default")
    assert known(world.database, tenant=None, limit=9) == []
    assert world.sql("SELECT count(*) FROM reminders.tenant_policies") == [(0,)]
    assert stamped(world) == "repeat"


def test_what_is_known_is_what_is_set_and_what_is_held_now(world):
    set_policy(world.database, "tenant-b", "log", retry_delays=[5.0])
    world.sql(
        "INSERT INTO reminders.channel_holds VALUES ('tenant-a', 'log', %s, 'refused'), ('tenant-c', 'log', %s, 'over')",
        world.now + timedelta(hours=1),
        world.now - timedelta(hours=1),
    )
    found = known(world.database, tenant=None, limit=9)
    assert [(each.tenant_id, each.channel, each.retry_delays, each.hold_reason) for each in found] == [
        ("tenant-a", "log", None, "refused"), ("tenant-b", "log", [5.0], None),
    ]  # fmt: skip
    assert found[0].held_until == world.now + timedelta(hours=1)
    assert known(world.database, tenant=None, limit=1) == found[:1]

"""Destinations: scheduling shares nothing through them, and an operator's word goes before the channel's default."""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.world import CLAIM, ScriptedProvider
from reminders.domain.errors import NotFound
from reminders.domain.identity import destination_id, uuid7
from reminders.domain.outcomes import Unknown
from reminders.ledger.destinations import find, get, matching, set_deduplicates

HOME = ("tenant-a", "log", "somewhere")
LOST = Unknown("timeout", "no answer", timed_out=True)


def test_two_transactions_use_two_new_addresses_in_opposite_orders(world):
    impatient = "-c lock_timeout=1s"
    first, second = world.connect(options=impatient), world.connect(options=impatient)
    made = [
        reminders.schedule(first, **world.wanted(destination="north")),
        reminders.schedule(second, **world.wanted(destination="south")),
        reminders.schedule(first, **world.wanted(destination="south")),
        reminders.schedule(second, **world.wanted(destination="north")),
    ]
    first.commit()
    second.commit()
    assert [each.created for each in made] == [True] * 4
    assert [world.status(each.id) for each in made] == [("pending", None)] * 4
    assert world.sql("SELECT destination, count(*) FROM reminders.reminders GROUP BY 1 ORDER BY 1") == [
        ("north", 2), ("south", 2),
    ]  # fmt: skip


def test_an_open_transaction_holds_up_no_operator_and_no_operator_a_transaction(world):
    caller = world.connect(options="-c lock_timeout=1s")
    reminders.schedule(caller, **world.wanted())
    said = world.start(set_deduplicates, world.database, *HOME, deduplicates=False).result(timeout=10)
    assert (said.deduplicates, said.deduplicates_set, said.reminders) == (False, True, 0)
    operator = world.connect()
    with operator.cursor() as cursor:
        cursor.execute("UPDATE reminders.destinations SET deduplicates = true")
    assert reminders.schedule(caller, **world.wanted()).created
    operator.rollback()
    caller.commit()


def test_scheduling_writes_no_destination(world):
    world.committed(reminders.schedule_many, [world.wanted(destination=f"place-{n}") for n in range(3)])
    assert world.sql("SELECT count(*) FROM reminders.destinations") == [(0,)]


def test_a_reminder_is_sent_to_the_address_it_was_scheduled_for(world):
    made = [world.schedule(destination=place) for place in ("north", "south")]
    world.published()
    claims = [world.claim(each) for each in made]
    assert [(each.delivery.destination, each.delivery.destination_id) for each in claims] == [
        (place, destination_id("tenant-a", "log", place)) for place in ("north", "south")
    ]


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("said", [True, False])
def test_the_operators_word_goes_before_the_default_although_it_came_first(world, default, said):
    set_deduplicates(world.database, *HOME, deduplicates=said)
    made = world.schedule(deduplicates=default)
    assert world.opened(made).on_unknown == ("repeat" if said else "review")
    assert world.column("reminders", "deduplicates", made.id) is default


def test_the_operators_word_is_for_one_destination_of_one_tenant(world):
    set_deduplicates(world.database, *HOME, deduplicates=False)
    here, elsewhere, others = (
        world.schedule(), world.schedule(destination="elsewhere"), world.schedule(tenant_id="tenant-b"),
    )  # fmt: skip
    world.published()
    assert [world.claim(each).on_unknown for each in (here, elsewhere, others)] == ["review", "repeat", "repeat"]


def test_an_uncertain_delivery_is_not_repeated_once_its_destination_is_known_not_to_deduplicate(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    set_deduplicates(world.database, *HOME, deduplicates=False)
    late = world.lapse(60)
    world.published(late)
    provider = ScriptedProvider()
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "dead"
    assert provider.calls == []
    assert world.letters(made.id) == [("unknown", "open", "not_repeatable")]


def test_uncertain_deliveries_are_repeated_where_only_the_operator_says_that_it_deduplicates(world):
    made = world.schedule(deduplicates=False)
    set_deduplicates(world.database, *HOME, deduplicates=True)
    world.finalize(world.opened(made), LOST)
    late = world.lapse(60)
    world.published(late)
    assert world.claims(late).refusal(made.id, made.delivery_key) == "busy"
    assert world.claims(late).claim(made.id, made.delivery_key, uuid7(), CLAIM).claim_number == 2


def test_what_is_known_is_what_reminders_name_and_what_was_set(world):
    ended = world.schedule()
    world.schedule()
    world.committed(reminders.cancel, ended.id)
    world.schedule(tenant_id="tenant-b", deduplicates=False)
    world.schedule(tenant_id="tenant-b")
    set_deduplicates(world.database, "tenant-c", "log", "unused", deduplicates=False)
    found = matching(world.database, tenant=None, channel=None, limit=10)
    shown = [
        (each.tenant_id, each.address, each.deduplicates, each.deduplicates_set, each.reminders, each.live)
        for each in found
    ]
    assert shown == [
        ("tenant-a", "somewhere", True, False, 2, 1),
        ("tenant-b", "somewhere", False, False, 2, 2),
        ("tenant-c", "unused", False, True, 0, 0),
    ]
    assert matching(world.database, tenant=None, channel=None, limit=2) == found[:2]
    assert matching(world.database, tenant="tenant-b", channel="log", limit=10) == found[1:2]
    assert matching(world.database, tenant="tenant-b", channel="webhook", limit=10) == []
    assert [get(world.database, each.id) for each in found] == found
    assert [find(world.database, each.tenant_id, each.channel, each.address) for each in found] == found
    first = world.sql("SELECT min(created_at) FROM reminders.reminders WHERE tenant_id = 'tenant-a'")
    assert [(found[0].created_at,)] == first
    assert set_deduplicates(world.database, *HOME, deduplicates=False).created_at == found[0].created_at


def test_what_nobody_has_named_is_not_found(world):
    world.schedule()
    with pytest.raises(NotFound):
        find(world.database, "tenant-b", "log", "somewhere")
    with pytest.raises(NotFound):
        get(world.database, destination_id("tenant-b", "log", "somewhere"))


def test_the_public_view_shows_no_address(world):
    world.schedule(destination="a-private-place")
    ((row,),) = world.sql("SELECT row_to_json(v)::text FROM reminders.reminders_v1 v")
    assert '"channel":"log"' in row
    assert "a-private-place" not in row

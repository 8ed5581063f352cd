"""A tenant belongs to one dispatcher; handed over, the old side can claim nothing of it any more, and nothing is lost or doubled."""

from __future__ import annotations

import psycopg2
import pytest

from integration.ledger.tenants import GREEN, MAIN, WORD, handed
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import InvalidInput, ServiceUnavailable
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Retry
from reminders.ledger import tenant_moves
from reminders.ledger.cohorts import add
from reminders.ledger.database import MARK
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.tenant_moves import Wanted, hand_over
from reminders.ledger.tenant_registry import Dispatcher
from reminders.ledger.tenant_standing import counted, standing


def owner(world, tenant="tenant-a"):
    (found,) = standing(world.database, tenant=tenant, limit=1)
    return found.dispatcher, found.epoch


def keys(messages):
    return [message.delivery_key for message in messages]


def test_a_scan_leases_only_its_own_tenants_rows(world):
    made, others = world.schedule(), world.schedule(tenant_id="tenant-b")
    handed(world)
    assert keys(world.published(dispatcher=MAIN)) == [others.delivery_key]
    assert keys(world.published(dispatcher=GREEN)) == [made.delivery_key]


def test_a_worker_of_another_dispatcher_gets_no_claim_and_leaves_the_row(world):
    handed(world)
    made = world.schedule()
    world.published(dispatcher=GREEN)
    provider = ScriptedProvider()
    assert world.deliver(provider, dispatcher=MAIN)(made.id, made.delivery_key) == "another_dispatchers"
    assert (provider.calls, world.status(made.id)[0]) == ([], "published")
    assert world.deliver(provider, dispatcher=GREEN)(made.id, made.delivery_key) == "delivered"
    assert len(provider.calls) == 1


def test_what_was_on_its_way_is_due_at_once_for_the_new_side_and_the_old_message_is_nobodys(world):
    made = world.schedule()
    (old,) = world.published(dispatcher=MAIN)
    moved = handed(world)
    assert (moved.changed, moved.woken, moved.open_claims) == ({"tenant-a": "main"}, 1, 0)
    assert keys(world.published(dispatcher=GREEN)) == [old.delivery_key]
    provider = ScriptedProvider()
    assert world.deliver(provider, dispatcher=MAIN)(made.id, made.delivery_key) == "another_dispatchers"
    assert world.deliver(provider, dispatcher=GREEN)(made.id, made.delivery_key) == "delivered"
    assert owner(world) == ("green", 1)


def test_a_lease_from_before_a_handover_and_back_is_nobodys_to_claim(world):
    made = world.schedule()
    token = uuid7()
    scan = PostgresScan(world.database, dispatcher=MAIN)
    assert len(scan.lease(10, 60.0, token).messages) == 1
    handed(world, "green")
    world.sql("UPDATE reminders.due SET status = 'leased', lease_token = %s, epoch = NULL", str(token))
    handed(world, "main")
    world.sql(
        "UPDATE reminders.due SET status = 'published', published_at = now(), lease_token = %s, epoch = NULL",
        str(token),
    )
    assert owner(world) == ("main", 2)
    provider = ScriptedProvider()
    assert world.deliver(provider, dispatcher=MAIN)(made.id, made.delivery_key) == "handed_over"
    assert (provider.calls, world.status(made.id)[0]) == ([], "pending")
    assert len(world.published(dispatcher=MAIN)) == 1
    assert world.deliver(provider, dispatcher=MAIN)(made.id, made.delivery_key) == "delivered"


def test_an_open_claim_is_reported_and_ends_as_it_would(world):
    made = world.schedule()
    world.published(dispatcher=MAIN)
    claim = world.claims(dispatcher=MAIN).claim(made.id, made.delivery_key, uuid7(), 30.0)
    moved = handed(world)
    assert (moved.open_claims, moved.claims_end_at is not None) == (1, True)
    assert world.finalize(claim, Delivered("r")) == "delivered"


def test_the_retry_of_an_open_claim_is_the_new_sides(world):
    made = world.schedule()
    world.published(dispatcher=MAIN)
    claim = world.claims(dispatcher=MAIN).claim(made.id, made.delivery_key, uuid7(), 30.0)
    handed(world)
    assert world.finalize(claim, Retry("busy", "later")) == "parked"
    later = world.lapse(60)
    assert world.published(later, dispatcher=MAIN) == []
    assert keys(world.published(later, dispatcher=GREEN)) == [made.delivery_key]


def test_it_returns_only_when_no_claim_that_began_before_can_commit(world):
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLE reminders.pauses IN {MARK}")
        with pytest.raises(ServiceUnavailable, match="The handover of tenant tenant-a is in force"):
            handed(world, wait=0.1)
    holder.rollback()
    assert owner(world) == ("green", 1)


@pytest.mark.parametrize("where", ["await_claims", "_moved"])
def test_killed_in_the_middle_it_is_completed_by_saying_it_again(world, monkeypatch, where):
    made = world.schedule()
    world.published(dispatcher=MAIN)

    def killed(*_arguments, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tenant_moves, where, killed)
        with pytest.raises(KeyboardInterrupt):
            handed(world)
    assert owner(world) == ("green", 1)
    assert world.claims(dispatcher=MAIN).claim(made.id, made.delivery_key, uuid7(), 30.0) is None
    again = handed(world)
    assert (again.changed, owner(world)) == ({}, ("green", 1))
    assert keys(world.published(dispatcher=GREEN)) == [made.delivery_key]


def test_all_tenants_and_the_new_ones_from_then_on(world):
    for tenant in ("t1", "t2"):
        world.schedule(tenant_id=tenant)
    assert len(world.published(dispatcher=MAIN)) == 2
    moved = handed(world, tenant=None)
    assert sorted(moved.changed) == ["t1", "t2"]
    made = world.schedule(tenant_id="t3")
    assert world.published(dispatcher=MAIN) == []
    assert made.delivery_key in keys(world.published(dispatcher=GREEN))
    assert owner(world, "t3") == ("green", 0)
    assert counted(world.database)[1] == {"green": 3}


def test_a_cohort_is_handed_over_in_one_step(world):
    add(world.database, "early", ["t1", "t2"], actor="ada")
    assert hand_over(world.database, Wanted(cohort="early"), "green", **WORD).changed == {"t1": "main", "t2": "main"}


def test_the_first_dispatcher_of_a_ledger_takes_its_new_tenants(world):
    blue = Dispatcher("blue")
    made = world.schedule()
    assert keys(world.published(dispatcher=blue)) == [made.delivery_key]
    assert owner(world) == ("blue", 0)
    world.schedule(tenant_id="tenant-b")
    assert world.published(dispatcher=MAIN) == []


def test_a_backlog_of_another_dispatcher_at_the_head_hides_nothing(world):
    handed(world, tenant="theirs")
    for _ in range(40):
        world.schedule(tenant_id="theirs")
    made = world.schedule(tenant_id="ours", due_at=world.lapse(-1))
    scan = world.scanning(dispatcher=MAIN, batch=10)
    look = scan.ledger.look(11)
    assert (look.due, look.others, look.crowded_out) == (0, 11, True)
    assert scan.once().published == 1
    assert keys(world.broker.take()) == [made.delivery_key]
    idle = scan.once()
    assert (idle.leased, idle.full) == (0, False)


def test_a_backlog_of_ones_own_behind_that_of_another_goes_out_without_a_pause(world):
    handed(world, tenant="theirs")
    for _ in range(20):
        world.schedule(tenant_id="theirs")
    mine = {world.schedule(tenant_id="ours", due_at=world.lapse(-1)).delivery_key for _ in range(25)}
    scan = world.scanning(dispatcher=MAIN, batch=10)
    for _ in range(3):
        assert scan.once().full
    assert set(keys(world.broker.take())) == mine


def test_messages_of_another_dispatcher_are_neither_missed_nor_do_they_take_room(world):
    handed(world, tenant="theirs")
    for _ in range(5):
        world.schedule(tenant_id="theirs")
    assert len(world.published(dispatcher=GREEN)) == 5
    world.schedule(tenant_id="ours")
    ledger = PostgresScan(world.database, world.lapse(5), dispatcher=MAIN)
    look = ledger.look(100)
    assert (look.published, look.due, look.others) == (0, 1, 0)
    assert ledger.wake_lost_messages(100, 2.0) == 0
    assert PostgresScan(world.database, world.lapse(5), dispatcher=GREEN).wake_lost_messages(100, 2.0) == 5


def test_what_is_refused_is_named(world):
    with pytest.raises(InvalidInput, match="to: 'No Name' is no name of a dispatcher"):
        handed(world, "No Name")
    with pytest.raises(InvalidInput, match="actor"):
        handed(world, actor="")


def test_there_is_one_owner_of_new_tenants(world):
    world.sql("INSERT INTO reminders.new_tenants (dispatcher) VALUES ('main')")
    with pytest.raises(psycopg2.errors.UniqueViolation):
        world.sql("INSERT INTO reminders.new_tenants (dispatcher) VALUES ('green')")

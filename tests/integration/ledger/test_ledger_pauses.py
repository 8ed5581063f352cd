"""Pauses: what is covered is not begun any more, waits without cost, and stays cancellable; claims against pauses."""

from __future__ import annotations

import logging

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.world import CLAIM, LEASE, ScriptedProvider, until
from reminders.domain.errors import InvalidInput, NotFound, ServiceUnavailable
from reminders.domain.identity import destination_id, uuid7
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.domain.pauses import PauseScope
from reminders.ledger import pausing
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import Database

HOME = destination_id("tenant-a", "log", "somewhere")


def hold_of(world, made):
    return world.column("due", "hold_id::text", made.id)


def stuck_claim(world, made, **parts):
    """A claim that is under way and cannot go on: somebody is inserting its delivery. Roll the connection back to let it.

    It waits for that only as long as the fixture `patient` has it wait.
    """
    blocker = world.connect()
    with blocker.cursor() as cursor:
        cursor.execute(
            """INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
                   claimed_until, worker, on_unknown, body_format)
               VALUES (%s, %s, 'sending', 1, %s, now(), now() + interval '1 s', 'w', 'repeat', 1)""",
            (made.delivery_key, str(made.id), str(made.id)),
        )
    claiming = world.start(world.claim, made, **parts)
    world.waiting_for_a_lock()
    return claiming, blocker


@pytest.mark.usefixtures("patient")
def test_a_claim_that_began_before_commits_before_pause_returns_and_is_reported(world):
    made = world.schedule()
    world.published()
    claiming, blocker = stuck_claim(world, made)
    pausing_ = world.start(pausing.pause, world.database, PauseScope("tenant-a"), **pauses.WORD)
    until(lambda: world.sql("SELECT 1 FROM reminders.pauses"), "the pause is committed")
    assert world.claim(world.schedule()) is None
    assert not pausing_.done()
    blocker.rollback()
    assert claiming.result() is not None
    said = pausing_.result()
    assert (said.open_claims, said.created) == (1, True)
    assert said.claims_end_at == world.column("due", "wake_at", made.id)
    assert world.status(made.id)[0] == "sending"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_claim_that_begins_after_a_pause_was_committed_sees_it(world, isolation):
    """The claim has been sent, and waits for its mark: what it sees must not be older than that."""
    made = world.schedule()
    world.published()
    spaced = isolation.replace(" ", "\\ ")
    url = world.database.url.update_query_dict({"options": f"-c default_transaction_isolation={spaced}"})
    own = Database(url.render_as_string(hide_password=False), schema="reminders")
    operator = world.connect()
    with operator.cursor() as cursor:
        cursor.execute("LOCK TABLE reminders.pauses IN EXCLUSIVE MODE")
        cursor.execute(
            "INSERT INTO reminders.pauses (id, reason, actor, host) VALUES (%s, 'r', 'a', 'h')", (str(made.id),)
        )
    claims = PostgresClaims(own, worker="w", formats={"log": 1})
    claiming = world.start(claims.claim, made.id, made.delivery_key, uuid7(), CLAIM)
    world.waiting_for_a_lock()
    operator.commit()
    assert claiming.result() is None
    own.close()
    assert world.claims().refusal(made.id, made.delivery_key) == "paused"


@pytest.mark.usefixtures("patient")
def test_the_wait_for_claims_is_bounded_and_the_pause_in_force_all_the_same(world):
    made = world.schedule()
    world.published()
    claiming, blocker = stuck_claim(world, made)
    with pytest.raises(ServiceUnavailable, match=r"in force, but claims .* within 0.1 s \(Postgres processes \d+\)"):
        pauses.paused(world, wait=0.1, tenant_id="tenant-a")
    late = world.schedule()
    assert world.published() == []
    assert world.status(late.id)[0] == "held"
    blocker.rollback()
    claiming.result()
    again = pausing.pause(world.database, PauseScope("tenant-a"), **pauses.WORD)
    assert (again.created, again.open_claims) == (False, 1)
    assert world.sql("SELECT count(*) FROM reminders.pauses") == [(1,)]


def test_pausing_makes_nobody_wait_and_waits_for_no_reader(world):
    reader = world.connect()
    with reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM reminders.reminders_v1")
    assert pauses.paused(world, wait=0.0)


def test_a_refused_claim_holds_the_reminder_and_says_so_in_one_line(world, caplog):
    made = world.schedule()
    ((message,),) = ([each] for each in world.published())
    by = pauses.paused(world, tenant_id="tenant-a")
    provider = ScriptedProvider()
    with caplog.at_level(logging.INFO, logger="reminders.pipeline.deliver"):
        assert world.deliver(provider)(message.reminder_id, message.delivery_key) == "paused"
        assert world.deliver(provider)(message.reminder_id, message.delivery_key) == "paused"
    assert provider.calls == []
    assert [each.getMessage() for each in caplog.records] == [
        f"deliver.no_claim reason=paused key={made.delivery_key}"
    ] * 2
    assert hold_of(world, made) == str(by)
    view = world.sql("SELECT status, wake_at, hold_id::text, hold_reason FROM reminders.reminders_v1")
    assert view == [("held", None, str(by), "receiver is moving")]


@pytest.mark.parametrize(
    ("scope", "covers"),
    [
        ({}, True),
        ({"tenant_id": "tenant-a"}, True),
        ({"tenant_id": "tenant-b"}, False),
        ({"channel": "log"}, True),
        ({"channel": "webhook"}, False),
        ({"kind": "note"}, True),
        ({"kind": "other"}, False),
        ({"destination_id": HOME}, True),
        ({"destination_id": destination_id("tenant-a", "log", "elsewhere")}, False),
        ({"tenant_id": "tenant-a", "kind": "note", "channel": "log", "destination_id": HOME}, True),
        ({"tenant_id": "tenant-a", "kind": "other"}, False),
        ({"tenant_id": "tenant-b", "kind": "note"}, False),
    ],
)
def test_what_a_pause_names_must_be_the_reminders(world, scope, covers):
    leased, published = world.schedule(due_at=world.lapse(3600)), world.schedule()
    world.published()
    pauses.paused(world, **scope)
    assert (world.claim(published) is None) is covers
    world.published(world.lapse(3601))
    assert (world.status(leased.id)[0] == "held") is covers


def test_the_lease_holds_what_is_paused_and_nobody_waits_behind_it(world):
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(300)])
    pauses.paused(world, tenant_id="tenant-a")
    fresh = world.schedule(tenant_id="tenant-b", due_at=world.now)
    scan = world.scanning(batch=50, in_flight=100)
    # The broker keeps what it was given: what it shows no more would be sent again two seconds later.
    assert (scan.once().full, [each.reminder_id for each in world.broker.sent]) == (True, [fresh.id])
    for _ in range(8):
        scan.once()
    assert {world.status(each.id)[0] for each in many} == {"held"}
    assert [each.reminder_id for each in world.broker.sent] == [fresh.id]
    look = scan.ledger.look(10)
    assert (look.due, look.seconds_to_next) == (0, pytest.approx(120, abs=20))
    assert scan.ledger.lease(10, LEASE, uuid7()).put_off == 0


def test_a_single_destinations_lane_is_held_as_any_other(world):
    """Held rows take none of the room that a destination may have."""
    for _ in range(40):
        world.schedule()
    other = world.schedule(tenant_id="tenant-b")
    pauses.paused(world, destination_id=HOME)
    scan = world.scanning(batch=10, in_flight=20)
    for _ in range(10):
        scan.once()
    assert [each.reminder_id for each in world.broker.take()] == [other.id]
    assert world.sql("SELECT status, count(*) FROM reminders.due GROUP BY status ORDER BY 1") == [
        ("held", 40),
        ("published", 1),
    ]


def test_what_is_held_takes_none_of_its_destinations_share(world):
    for _ in range(5):
        world.schedule()
    pauses.paused(world, destination_id=HOME)
    leased = world.scanning().ledger.lease_from_lanes([("tenant-a", 5)], 5, LEASE, uuid7(), cap=1)
    assert (leased.messages, leased.passed_over, leased.put_off) == ([], [], 5)


def test_held_reminders_can_be_cancelled_and_moved(world):
    first, second = world.schedule(), world.schedule()
    by = pauses.held(world, first)
    assert world.committed(reminders.cancel, first.id) == "cancelled"
    assert world.committed(reminders.reschedule, second.id, due_at=second.due_at).status == "held"
    moved = world.committed(reminders.reschedule, second.id, due_at=world.lapse(3600))
    assert (moved.status, hold_of(world, second)) == ("pending", None)
    assert world.published(world.lapse(3601)) == []
    assert hold_of(world, second) == str(by)


def test_what_ends_meanwhile_is_held_when_its_turn_comes(world):
    """A retry, a claim's end without its worker, and a redrive."""
    retried, lost, dead = (world.schedule() for _ in range(3))
    claims = [world.opened(each) for each in (retried, lost, dead)]
    world.finalize(claims[2], Rejected("gone", ""))
    pauses.paused(world)
    assert world.finalize(claims[0], Retry("busy", "")) == "parked"
    world.repair()
    world.redrive(dead)
    assert {world.status(each.id)[0] for each in (retried, lost, dead)} == {"pending"}
    assert world.published(world.lapse(CLAIM + 60)) == []
    assert {world.status(each.id) for each in (retried, lost, dead)} == {("held", "retrying")}


def test_an_open_claim_ends_as_it_would(world):
    made = world.schedule()
    claim = world.opened(made)
    said = pausing.pause(world.database, PauseScope(), **pauses.WORD)
    assert (said.open_claims, said.claims_end_at) == (1, world.column("due", "wake_at", made.id))
    assert world.finalize(claim, Delivered("r")) == "delivered"


def test_what_expires_while_it_is_held_ends_then(world):
    made = world.schedule(expires_at=world.lapse(3600))
    pauses.held(world, made)
    world.scanning(now=world.lapse(3500)).once()
    assert world.status(made.id)[0] == "held"
    world.scanning(now=world.lapse(3700)).once()
    assert world.status(made.id)[0] == "expired"


def test_a_pause_needs_a_scope_a_reason_and_somebody(world):
    for given in ({}, {"tenant": "a", "everything": True}, {"tenant": ""}, {"destination": "there"}):
        with pytest.raises(InvalidInput):
            pausing.read_scope(**given)
    assert pausing.read_scope(everything=True) == PauseScope()
    for word in ({"actor": " ", "reason": "r"}, {"actor": "a", "reason": ""}):
        with pytest.raises(InvalidInput):
            pausing.pause(world.database, PauseScope(), **word)
    with pytest.raises(NotFound):
        pauses.resumed(world, HOME)
    with pytest.raises(NotFound):
        pausing.active_of_scope(world.database, PauseScope("tenant-a"))

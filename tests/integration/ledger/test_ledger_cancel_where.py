"""Cancelling all that is about something: by the rules of one, in one round trip, bounded, and without deadlocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.test_ledger_cancel import claim_by_hand
from integration.ledger.world import ScriptedProvider
from reminders import InvalidInput
from reminders.domain.outcomes import Delivered, Rejected, Unknown

LOST = Unknown("timeout", "no answer", timed_out=True)
PAID = {"tenant_id": "tenant-a", "reference": "invoice-17"}


def cancel(world, **given):
    return world.committed(reminders.cancel_where, **{**PAID, **given})


def about(world, **changed):
    """One about the invoice, in a slot of its own."""
    number = world.sql("SELECT count(*) FROM reminders.reminders")[0][0]
    return world.schedule(**{"reference": "invoice-17", "slot": f"slot-{number}", **changed})


def one_of_each(world):
    """Under one reference, a reminder for each answer that `cancel` has."""
    made = {"delivered": about(world)}
    world.finalize(world.opened(made["delivered"]), Delivered())
    made["uncertain"] = about(world)
    world.finalize(world.opened(made["uncertain"]), LOST)
    made["dead"] = about(world)
    world.finalize(world.opened(made["dead"]), Rejected("gone", "refused"))
    made["sending"] = about(world)
    world.opened(made["sending"])
    made["published"] = about(world)
    world.published()
    made["pending"] = about(world, due_at=world.now + timedelta(days=1))
    return made


def test_each_is_answered_as_cancel_by_id_would(world):
    made = one_of_each(world)
    other = world.schedule(reference="invoice-18")
    found = cancel(world)
    assert set(found.cancelled) == {made["dead"].id, made["published"].id, made["pending"].id}
    assert found.requested == (made["sending"].id,)
    assert found.maybe_sent == (made["uncertain"].id,)
    assert found.too_late == (made["delivered"].id,)
    assert found.counts == {"cancelled": 3, "requested": 1, "maybe_sent": 1, "too_late": 1}
    assert not found.more
    assert world.status(made["pending"].id) == ("cancelled", None)
    assert world.status(made["dead"].id) == ("cancelled", "cancelled")
    assert world.letters(made["dead"].id) == [("destination", "discarded", "gone")]
    assert world.status(made["uncertain"].id) == ("dead", "unknown")
    assert world.letters(made["uncertain"].id) == [("unknown", "open", "cancelled_while_uncertain")]
    assert world.column("due", "cancel_requested_at", made["sending"].id) is not None
    assert world.status(other.id)[0] == "pending"
    for answer in ("cancelled", "requested", "maybe_sent", "too_late"):
        for each in getattr(found, answer):
            assert world.committed(reminders.cancel, each) == answer


def test_nothing_follows(world):
    made = one_of_each(world)
    cancel(world)
    provider = ScriptedProvider()
    for now in (world.lapse(0), world.lapse(3600), world.lapse(200_000)):
        world.published(now)
        for each in made.values():
            world.deliver(provider, now=now)(each.id, each.delivery_key)
    assert provider.calls == []


def test_asked_again_only_what_is_delivered_is_told_again(world):
    made = one_of_each(world)
    cancel(world)
    again = cancel(world)
    assert again.counts == {"cancelled": 0, "requested": 0, "maybe_sent": 0, "too_late": 1}
    assert again.too_late == (made["delivered"].id,)


def test_a_dry_run_says_the_same_and_changes_and_locks_nothing(world):
    one_of_each(world)
    before = world.sql("SELECT * FROM reminders.reminders_v1 ORDER BY id")
    with world.connect() as connection:
        said = reminders.cancel_where(connection, **PAID, dry_run=True)
        locks = "SELECT count(*) FROM pg_locks WHERE mode IN ('RowShareLock', 'RowExclusiveLock') AND pid = %s"
        assert world.sql(locks, connection.info.backend_pid)[0][0] == 0
    assert world.sql("SELECT * FROM reminders.reminders_v1 ORDER BY id") == before
    assert cancel(world) == said


@pytest.mark.parametrize(
    ("filters", "matching"),
    [
        ({"user_id": "ada", "reference": None}, "abcde"),
        ({"user_id": "ada", "reference": "r"}, "abcd"),
        ({"kind": "due", "reference": "r"}, "bf"),
        ({"slot": "early", "reference": "r"}, "c"),
        ({"slot": "", "reference": "r"}, "abdf"),
        ({"channel": "webhook", "reference": "r"}, "d"),
        ({"user_id": "ada", "kind": "due", "reference": "r"}, "b"),
        ({"user_id": "nobody", "reference": None}, ""),
    ],
)
def test_filters_narrow_and_another_tenants_are_never_touched(world, filters, matching):
    ada = {"user_id": "ada", "reference": "r"}
    made = {
        "a": world.schedule(**ada),
        "b": world.schedule(**ada, kind="due"),
        "c": world.schedule(**ada, slot="early"),
        "d": world.schedule(**ada, channel="webhook", destination="https://hooks.example.com/a"),
        "e": world.schedule(user_id="ada", reference=None),
        "f": world.schedule(user_id="bob", reference="r", kind="due"),
        "g": world.schedule(**ada, tenant_id="tenant-b"),
    }
    found = cancel(world, **filters)
    assert set(found.cancelled) == {made[name].id for name in matching}
    assert world.status(made["g"].id)[0] == "pending"


def test_what_is_more_than_asked_for_is_left_and_said(world):
    delivered = about(world)
    world.finalize(world.opened(delivered), Delivered())
    made = [about(world, due_at=world.now + timedelta(days=1)) for _ in range(5)]
    steps = [cancel(world, at_most=2) for _ in range(3)]
    assert [len(step.cancelled) for step in steps] == [2, 2, 1]
    assert [step.more for step in steps] == [True, True, False]
    assert [step.too_late for step in steps] == [(), (), (delivered.id,)]
    assert {each for step in steps for each in step.cancelled} == {each.id for each in made}


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("reference", {"reference": None}),
        ("reference", {"reference": ""}),
        ("tenant_id", {"tenant_id": None}),
        ("tenant_id", {"tenant_id": ""}),
        ("user_id", {"user_id": 7}),
        ("kind", {"kind": "\x00"}),
        ("slot", {"slot": "x" * 65}),
        ("at_most", {"at_most": 0}),
        ("at_most", {"at_most": 10_001}),
        ("at_most", {"at_most": None}),
    ],
)
def test_what_is_wrong_is_named_and_nothing_changes(world, field, given):
    made = about(world)
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.cancel_where(connection, **{**PAID, **given})
    assert caught.value.field == field
    assert reminders.get(connection, made.id).status == "pending"


def test_it_belongs_to_the_callers_transaction(world):
    made = about(world)
    connection = world.connect()
    assert reminders.cancel_where(connection, **PAID).cancelled == (made.id,)
    assert world.status(made.id)[0] == "pending"
    connection.rollback()
    assert world.status(made.id)[0] == "pending"


def test_a_claim_under_way_is_waited_for_and_then_only_requested(world):
    made = about(world)
    world.published()
    holder = world.connect()
    claim_by_hand(holder, made)
    answer = world.start(cancel, world)
    world.waiting_for_a_lock()
    holder.commit()
    assert answer.result(timeout=10).requested == (made.id,)


def test_two_that_overlap_do_not_deadlock_whatever_index_finds_their_rows(world):
    made = [about(world, user_id="ada", due_at=world.now + timedelta(days=1)) for _ in range(40)]
    work = [
        world.start(world.committed, reminders.cancel_where, **{**PAID, **filters})
        for _ in range(4)
        for filters in ({}, {"reference": None, "user_id": "ada"}, {"user_id": "ada"})
    ]
    for each in work:
        assert not each.result(timeout=20).requested
    assert {world.status(each.id)[0] for each in made} == {"cancelled"}


def test_rows_are_locked_in_the_order_of_their_ids(world):
    """Whoever holds the lowest id holds up the whole set: nothing behind it is locked meanwhile."""
    made = sorted((about(world, due_at=world.now + timedelta(days=1)) for _ in range(4)), key=lambda each: each.id)
    holder, other = world.connect(), world.connect()
    reminders.cancel(holder, made[0].id)
    answer = world.start(cancel, world)
    world.waiting_for_a_lock()
    with other.cursor() as cursor:
        cursor.execute("SELECT id FROM reminders.due ORDER BY id FOR NO KEY UPDATE SKIP LOCKED")
        assert [row[0] for row in cursor.fetchall()] == [str(each.id) for each in made[1:]]
    other.rollback()
    holder.rollback()
    assert len(answer.result(timeout=10).cancelled) == 4


@pytest.mark.parametrize(
    ("filters", "index"), [({}, "reminders_reference"), ({"reference": None, "user_id": "user-1"}, "reminders_user")]
)
def test_it_finds_them_by_an_index(world, filters, index):
    used = f"SELECT pg_stat_force_next_flush(), idx_scan FROM pg_stat_user_indexes WHERE indexrelname = '{index}'"
    world.committed(
        reminders.schedule_many, [world.wanted(user_id=f"user-{n}", reference=f"r-{n}") for n in range(1000)]
    )
    about(world)
    connection = world.connect()
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE reminders.reminders")
    before = world.sql(used)[0][1]
    # More often than a plan for any filters at all would come to be considered.
    for _ in range(8):
        reminders.cancel_where(connection, **{**PAID, **filters})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    assert world.sql(used)[0][1] - before >= 8

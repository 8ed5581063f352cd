"""Claims and plain ends of many reminders in one statement: each comes to what it would alone (G3, G4, G6, G7)."""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier

import pytest
from psycopg2.errors import DeadlockDetected, QueryCanceled, SerializationFailure

import reminders
from integration.ledger.world import CLAIM, ScriptedProvider
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Retry
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.finalizing_together import finalize_delivered
from reminders.pipeline.ports import Report


def asked(made, token=None, key=None):
    return str(made.id), key or made.delivery_key, str(token or uuid7()), CLAIM


def tokens(rows):
    return [row and row[0] for row in rows]


def plain(world, claim, reference="r"):
    """A report as the statement of one takes it."""
    ledger = PostgresFinalize(world.database, worker="worker-1")
    return ledger._given(claim, Report(Delivered(reference, 200), 3, b"h" * 32), "delivered")


def test_each_of_many_gets_its_own_claim_and_no_other(world):
    many = [world.schedule() for _ in range(5)]
    cancelled, superseded = world.schedule(), world.schedule()
    world.published()
    world.committed(reminders.cancel, cancelled.id)
    wanted = [*map(asked, many), asked(cancelled), asked(superseded, key="rk_another")]

    rows = world.claims()._claim_together(wanted)

    assert tokens(rows) == [token for _, _, token, _ in wanted[:5]] + [None, None]
    assert [world.status(each.id) for each in many] == [("sending", "sending")] * 5
    assert world.status(cancelled.id) == ("cancelled", None)
    assert world.status(superseded.id) == ("published", None)


def test_of_two_that_ask_for_one_reminder_one_gets_it(world):
    made, other = world.schedule(), world.schedule()
    world.published()
    wanted = [asked(made), asked(made), asked(other)]

    one, two, third = tokens(world.claims()._claim_together(wanted))

    assert (one is None) != (two is None)
    assert third == wanted[2][2]
    assert world.column("notification_deliveries", "claim_number", made.id) == 1


def test_a_reminder_that_somebody_holds_keeps_no_other_from_its_claim(world):
    held, free = world.schedule(), world.schedule()
    world.published()
    holder = world.connect()
    assert reminders.cancel(holder, held.id) == "cancelled"

    rows = world.claims()._claim_together([asked(held), asked(free)])

    assert [row is not None for row in rows] == [False, True]
    holder.rollback()


def test_a_delivery_that_somebody_holds_keeps_no_other_from_its_claim(world):
    """A row that no caller of ours holds alone: a person's session does, or a tool's. Its own claim is asked for again."""
    held, others = world.schedule(), [world.schedule() for _ in range(4)]
    assert world.finalize(world.opened(held), Retry("refused", "connection refused")) == "parked"
    later = world.lapse(60)
    world.published(now=later)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM reminders.notification_deliveries WHERE reminder_id = %s FOR UPDATE", (str(held.id),)
        )
    claims, barrier = world.claims(now=later), Barrier(5)

    def work(made):
        barrier.wait()
        return claims.claim(made.id, made.delivery_key, uuid7(), CLAIM)

    first, *rest = [world.start(work, each) for each in (held, *others)]

    try:
        assert all(each.result(timeout=60) is not None for each in rest)
        assert isinstance(first.exception(timeout=60), DATABASE_FAULTS)
    finally:
        holder.rollback()
    claim = claims.claim(held.id, held.delivery_key, uuid7(), CLAIM)
    assert claim is not None
    assert claim.claim_number == 2


@pytest.mark.parametrize("fault", [DeadlockDetected, SerializationFailure, QueryCanceled])
def test_a_transaction_that_postgres_ended_is_nobodys_fault_but_one_members(world, monkeypatch, fault):
    made = [world.schedule() for _ in range(6)]
    world.published()
    claims, barrier = world.claims(), Barrier(6)
    fetch, poison = world.database.fetch_marked, str(made[3].id)

    def fetched(*given, ids, **named):
        if poison in ids:
            raise fault
        return fetch(*given, ids=ids, **named)

    monkeypatch.setattr(world.database, "fetch_marked", fetched)

    def work(each):
        barrier.wait()
        return claims.claim(each.id, each.delivery_key, uuid7(), CLAIM)

    started = [world.start(work, each) for each in made]

    assert [type(each.exception(timeout=60)) for each in started] == [type(None)] * 3 + [fault] + [type(None)] * 2


def test_many_ends_are_recorded_as_one_is(world):
    made = [world.schedule() for _ in range(4)]
    world.published()
    claims = [world.claim(each) for each in made]

    assert (
        finalize_delivered(world.database, [plain(world, each, f"r-{n}") for n, each in enumerate(claims)])
        == [True] * 4
    )

    for number, each in enumerate(made):
        assert world.status(each.id) == ("delivered", "delivered")
        assert world.attempts(each.id) == [(1, "delivered", "")]
        assert world.column("notification_deliveries", "provider_reference", each.id) == f"r-{number}"
        assert bytes(world.column("notification_deliveries", "body_hash", each.id)) == b"h" * 32
        columns = "status_code, duration_ms, decision, worker, ready_at IS NOT NULL"
        (row,) = world.sql(f"SELECT {columns} FROM reminders.delivery_attempts WHERE reminder_id = %s", str(each.id))
        assert row == (200, 3, "delivered", "worker-1", True)


def test_a_lapsed_claim_and_the_one_after_it_are_told_apart(world):
    made = world.schedule()
    lapsed = world.opened(made)
    assert world.repair() == 1
    claim = world.opened(made, now=world.lapse(CLAIM + 60))
    assert (lapsed.claim_number, claim.claim_number) == (1, 2)

    assert finalize_delivered(world.database, [plain(world, lapsed, "late"), plain(world, claim)]) == [False, True]


@pytest.mark.parametrize("table", ["due", "reminders"])
def test_what_an_application_holds_keeps_no_other_from_its_end(world, table):
    held, free = world.schedule(), world.schedule()
    world.published()
    reports = [plain(world, world.claim(each)) for each in (held, free)]
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM reminders.{table} WHERE id = %s FOR UPDATE", (str(held.id),))

    assert finalize_delivered(world.database, reports) == [False, True]

    assert world.status(free.id) == ("delivered", "delivered")
    holder.rollback()
    assert finalize_delivered(world.database, reports) == [True, False]


def test_a_destination_that_recovers_is_noted_by_the_end_of_one(world):
    place = "https://hooks.example/recovers"
    first, second = world.schedule(destination=place), world.schedule(destination=place)
    world.published()
    assert world.finalize(world.claim(first), Retry("refused", "connection refused")) == "parked"
    claim = world.claim(second)

    assert finalize_delivered(world.database, [plain(world, claim)]) == [False]
    assert world.finalize(claim, Delivered("r")) == "delivered"

    assert world.sql("SELECT failing_since FROM reminders.destinations") == [(None,)]


def test_what_cannot_be_stored_of_one_costs_no_other_its_end(world):
    many = [world.schedule() for _ in range(12)]
    world.published()
    ledger = PostgresFinalize(world.database, worker="worker-1")
    claims = [world.claim(each) for each in many]
    claims[3] = replace(claims[3], claim_number=2**40)
    barrier = Barrier(len(claims))

    def work(claim):
        barrier.wait()
        return ledger.finalize_delivered_if_sending(claim, Report(Delivered("r"), 3, None))

    started = [world.start(work, each) for each in claims]
    faults = [each.exception(timeout=60) for each in started]

    assert [n for n, fault in enumerate(faults) if fault is not None] == [3]
    assert [world.status(each.id)[0] for n, each in enumerate(many) if n != 3] == ["delivered"] * 11


def test_many_at_once_are_carried_through_and_called_once_each(world):
    many = [world.schedule() for _ in range(24)]
    world.published()
    provider, barrier = ScriptedProvider(), Barrier(12)
    deliver = world.deliver(provider)

    def work(half):
        barrier.wait()
        return [deliver(each.id, each.delivery_key) for each in half]

    halves = [world.start(work, many[n::12]) for n in range(12)]

    assert [each.result(timeout=60) for each in halves] == [["delivered", "delivered"]] * 12
    assert sorted(key for key, *_ in provider.calls) == sorted(each.delivery_key for each in many)
    assert all(world.attempts(each.id) == [(1, "delivered", "")] for each in many)

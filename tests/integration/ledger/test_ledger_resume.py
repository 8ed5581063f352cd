"""Resuming: what a pause held comes back, at the rate that was set; nothing is stranded, whoever does what meanwhile."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.world import LEASE, MAX_WAIT, ScriptedProvider
from reminders.domain.errors import NotFound
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Blocked, Retry
from reminders.domain.pauses import PauseScope
from reminders.ledger import pausing
from reminders.ledger.leasing import LEASE as LEASE_STATEMENT
from reminders.ledger.releasing import AHEAD, RELEASE_IF_ENDED


def turns(world):
    """Of what was let go: seconds after the first of it, in order."""
    found = [row[0] for row in world.sql("SELECT wake_at FROM reminders.due WHERE status = 'pending' ORDER BY wake_at")]
    return [round((each - found[0]).total_seconds(), 3) for each in found]


def held_number(world):
    return world.sql("SELECT count(*) FROM reminders.due WHERE status = 'held'")[0][0]


def many_held(world, number):
    made = world.committed(reminders.schedule_many, [world.wanted() for _ in range(number)])
    by = pauses.paused(world, tenant_id="tenant-a")
    world.scanning(in_flight=10_000).once()
    assert held_number(world) == number
    return made, by


def test_what_was_held_is_sent_by_the_next_look(world):
    made = world.schedule()
    by = pauses.held(world, made)
    assert world.published() == []
    pauses.resumed(world, by)
    assert [each.reminder_id for each in world.published()] == [made.id]
    assert world.sql("SELECT hold_id, held_at, wait_left, give_up_at FROM reminders.due") == [(None,) * 4]
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"


def test_a_resume_while_a_scan_is_just_holding_strands_nothing(world):
    """The lease has seen the pause, and commits after the resume and after a sweep that found nothing."""
    made = world.schedule()
    by = pauses.paused(world)
    scan = world.connect()
    lease = world.database.bound(LEASE_STATEMENT)
    given = {"limit": 10, "seconds": LEASE, "token": str(uuid7()), "max_wait": MAX_WAIT, "with_retries": True}
    with scan.cursor() as cursor:
        cursor.execute(lease.plain, lease.arguments(given))
    pauses.resumed(world, by)
    assert world.published() == []
    scan.commit()
    assert str(world.column("due", "hold_id", made.id)) == str(by)
    assert [each.reminder_id for each in world.published()] == [made.id]


def test_a_resume_while_a_refused_claim_is_just_holding_strands_nothing(world, monkeypatch):
    made = world.schedule()
    world.published()
    by = pauses.paused(world)
    claims = world.claims()
    hold = claims._db.fetch

    def resumed_just_before(statement, **given):
        if statement.name == "hold_if_paused":
            pauses.resumed(world, by)
        return hold(statement, **given)

    monkeypatch.setattr(claims._db, "fetch", resumed_just_before)
    assert claims.refusal(made.id, made.delivery_key) == "busy"
    assert claims.claim(made.id, made.delivery_key, uuid7(), 30.0) is not None


def test_a_rate_is_kept_by_the_ledger_and_turns_are_given_out_a_little_ahead(world):
    _, by = many_held(world, 50)
    pauses.resumed(world, by, rate=2.0)
    now = world.lapse(0)
    assert pauses.release(world, now=now) == 1 + 2 * AHEAD
    assert turns(world) == [each / 2 for each in range(21)]
    assert pauses.release(world, now=now) == pauses.release(world, at=4.9, now=now) == 0
    # Those whose turn has come are called, and make way for as many.
    assert len(world.called(now + timedelta(seconds=4.9))) == 10
    assert pauses.release(world, at=5.0, now=now) == 10
    assert turns(world) == [each / 2 for each in range(21)]
    assert held_number(world) == 19


def test_two_sweeps_at_once_give_no_turn_out_twice(world):
    _, by = many_held(world, 40)
    pauses.resumed(world, by, rate=1.0)
    one = world.connect()
    sweep = world.database.bound(RELEASE_IF_ENDED)
    with one.cursor() as cursor:
        cursor.execute(sweep.plain, sweep.arguments({"limit": 5}))
        assert cursor.fetchall() == [(5,)]
        assert pauses.release(world) == 0
    one.commit()
    assert pauses.release(world) == 6
    assert turns(world) == pytest.approx(list(range(11)), abs=0.1)


def test_a_later_word_changes_the_rate_of_what_is_left(world):
    _, by = many_held(world, 20)
    pauses.resumed(world, by, rate=1 / 3600)
    assert pauses.release(world) == 1
    (said,) = pauses.resumed(world, by)
    assert (said.ended_by, said.rate, said.held) == ("bo", None, 19)
    assert pauses.release(world) == 19


def test_paused_again_and_resumed_slower_what_the_first_pause_still_holds_goes_slower_too(world):
    _, first = many_held(world, 40)
    pauses.resumed(world, first, rate=1.0)
    assert pauses.release(world) == 1 + AHEAD
    again = pauses.paused(world, tenant_id="tenant-a")
    world.published(world.lapse(11))
    assert dict(world.sql("SELECT hold_id::text, count(*) FROM reminders.due GROUP BY 1")) == {
        str(first): 29,
        str(again): 11,
    }
    pauses.resumed(world, again, rate=0.5)
    begun = time.monotonic()
    called = [each for second in range(40) for each in world.called(world.lapse(12.0 + second))]
    # Looking takes its time too, which counts.
    assert len(called) == pytest.approx((40 + time.monotonic() - begun) / 2, abs=3)


def test_what_another_pause_covers_stays_held_by_that_one(world):
    covered, free = world.schedule(kind="other"), world.schedule()
    by = pauses.held(world, free)
    second = pauses.paused(world, kind="other")
    since = world.column("due", "held_at", covered.id)
    pauses.resumed(world, by, rate=1.0)
    now = world.lapse(0)
    assert [each.reminder_id for each in world.published(now)] == [free.id]
    row = world.sql("SELECT status, hold_id::text, held_at FROM reminders.due WHERE id = %s", str(covered.id))
    assert row == [("held", str(second), since)]
    pauses.resumed(world, second)
    # Back where it was, it has the next turn of that rate.
    assert world.published(now + timedelta(seconds=0.9)) == []
    assert [each.reminder_id for each in world.published(now + timedelta(seconds=1.1))] == [covered.id]


def test_a_row_that_an_application_holds_is_let_go_later(world):
    made = world.schedule()
    by = pauses.held(world, made)
    pauses.resumed(world, by)
    caller = world.connect()
    reminders.cancel(caller, made.id)
    assert pauses.release(world) == 0
    caller.rollback()
    assert pauses.release(world) == 1


def test_held_time_does_not_count_as_waiting(world):
    """What is left of the bound on all waiting, and of the budget since the first attempt, is what was left before."""
    made = world.schedule()
    now = world.lapse(1)
    world.finalize(world.opened(made), Blocked("destination", timedelta(seconds=90), "slow", "", 429), now=now)
    bound = world.column("due", "give_up_at", made.id)
    by = pauses.held(world, made, at=120.0)
    since = world.column("due", "held_at", made.id)
    assert world.sql("SELECT give_up_at, wait_left FROM reminders.due") == [(None, bound - since)]
    pauses.resumed(world, by)
    later = MAX_WAIT + 120.0
    world.scanning(now=world.lapse(later)).once()
    assert world.status(made.id)[0] == "published"
    stood_still = world.column("due", "give_up_at", made.id) - bound
    assert stood_still == world.column("notification_deliveries", "held_for", made.id)
    claim = world.claim(made, now=world.lapse(later + 1))
    assert claim.waited == pytest.approx(120, abs=30)
    assert stood_still == pytest.approx(timedelta(seconds=MAX_WAIT), abs=timedelta(seconds=30))


def test_an_expiry_stands_however_long_it_was_held(world):
    end = world.now + timedelta(hours=2)
    made = world.schedule(expires_at=end)
    world.finalize(world.opened(made), Retry("busy", ""))
    by = pauses.held(world, made, at=60.0)
    pauses.resumed(world, by, rate=1 / 3600)
    pauses.release(world, at=3600.0)
    assert world.column("due", "give_up_at", made.id) == end
    assert world.column("due", "wake_at", made.id) <= end


def test_a_turn_after_the_expiry_ends_it_at_the_expiry(world):
    end = world.lapse(600)
    pauses.held(world, world.schedule(expires_at=end))
    last = world.schedule(expires_at=end)
    world.published()
    (by,) = pausing.active_of_scope(world.database, PauseScope("tenant-a"))
    pauses.resumed(world, by, rate=1 / 3600)
    assert world.sql("SELECT count(*) FROM reminders.due") == [(2,)]
    pauses.release(world)
    world.scanning(now=world.lapse(601)).once()
    assert world.status(last.id)[0] == "expired"


def test_pauses_are_listed_with_what_they_hold_until_nothing_is(world):
    many_held(world, 3)
    (listed,) = pausing.pauses(world.database)
    assert (listed.scope.words(), listed.held, listed.reason, listed.actor) == (
        "tenant tenant-a",
        3,
        "receiver is moving",
        "ada",
    )
    pauses.resumed(world, listed.id)
    assert [each.ended_by for each in pausing.pauses(world.database)] == ["bo"]
    pauses.release(world)
    assert pausing.pauses(world.database) == []
    assert [each.held for each in pausing.pauses(world.database, ended=True)] == [0]
    with pytest.raises(NotFound):
        pausing.active_of_scope(world.database, PauseScope("tenant-a"))

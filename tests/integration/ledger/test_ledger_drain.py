"""A drain works off what was due when it began, oldest first, at a rate of the ledger's own; lateness is never hidden."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.test_ledger_admission import ScriptedTokens
from integration.ledger.test_ledger_rates import at, burst
from integration.ledger.world import ScriptedProvider, World
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.identity import destination_id, uuid7
from reminders.domain.pauses import PauseScope
from reminders.ledger.draining import begin_drain, drain_of_scope, drains, stop_drain
from reminders.ledger.pausing import pauses as listed
from reminders.ledger.pausing import resume
from reminders.ledger.putting_off import PostgresTurns
from reminders.ledger.rates import KeptRates
from reminders.ledger.releasing import AHEAD
from reminders.ledger.status import ledger_status
from reminders.pipeline.admission import Admission

LOUD = PauseScope(tenant_id="loud")
WORD = {"actor": "ada", "reason": "after the outage"}


def drain(world: World, rate: float = 10.0, scope: PauseScope = LOUD):
    return begin_drain(world.database, scope, rate=rate, **WORD)[0]


def sent(world: World, seconds: float):
    """The ids that one pass sends and workers take, `seconds` after the test began, however long the passes before it took; the sweep
    comes before the lease.
    """
    return world.called(at(world, seconds))


def test_the_backlog_goes_oldest_first_at_the_rate_and_what_comes_due_later_at_once(world):
    old = burst(world, "loud", 100, age=3600)
    young = burst(world, "loud", 50, age=60)
    drain(world)
    fresh = world.committed(
        reminders.schedule_many,
        [world.wanted(tenant_id="loud", due_at=world.now + timedelta(seconds=30)) for _ in range(3)],
    )
    assert sent(world, 0) == []
    order = []
    for second in range(31):
        order += sent(world, float(second))
        assert len([each for each in order if each not in {f.id for f in fresh}]) <= 10 * second + 12
    assert set(order) >= {each.id for each in (*old, *young, *fresh)}
    backlog = [each.id for each in (*old, *young)]
    places = [backlog.index(each) for each in order if each in set(backlog)]
    assert max(abs(place - number) for number, place in enumerate(places)) <= 11


def test_others_are_sent_as_ever(world):
    burst(world, "loud", 100, age=3600)
    others = burst(world, "quiet", 20, age=60)
    drain(world, rate=1.0)
    assert set(sent(world, 0)) == {each.id for each in others}


@pytest.mark.parametrize(
    "scope",
    [PauseScope(), PauseScope(destination_id=destination_id("loud", "log", "place"))],
    ids=["all", "destination"],
)
def test_everything_or_one_destination(world, scope):
    burst(world, "loud", 10)
    burst(world, "loud", 10, "elsewhere")
    drain(world, rate=0.01, scope=scope)
    assert len(sent(world, 0)) == (0 if scope == PauseScope() else 10)
    assert drain_of_scope(world.database, scope).held in {20, 10}


def test_lateness_progress_and_estimate_are_shown(world):
    burst(world, "loud", 100, age=3600)
    made = drain(world, rate=2.0)
    assert (made.left, made.found, made.held) == (100, 100, 0)
    sent(world, 0)
    sent(world, 1.1)
    (found,) = drains(world.database)
    assert found.left == found.held == 100 - (int(AHEAD * 2) + 1)
    assert found.eta_seconds(at(world, 1.1)) == pytest.approx(50, abs=3)
    assert found.oldest_since < world.lapse(0) - timedelta(minutes=59)
    told = ledger_status(world.database)
    assert told["oldest_due_age_seconds"] >= 3590
    assert [each.id for each in told["drains"]] == [made.id]
    assert told["pauses"] == []
    assert listed(world.database, ended=True) == []


def test_while_workers_are_away_no_more_turns_are_given_and_then_the_rate_is_kept(world):
    """What is called at once when they are back is what had a turn, and of that as much as a bucket holds."""
    made = burst(world, "loud", 300, age=3600)
    drained = drain(world, rate=4.0)
    world.published(at(world, 0))
    messages = [each for second in range(1, 60) for each in world.published(at(world, float(second)))]
    assert len(messages) == 4 * AHEAD + 1
    assert {message.caps for message in messages} == {(drained.id,)}
    found = drain_of_scope(world.database, LOUD)
    assert (found.going, found.held) == (41, 259)
    assert found.oldest_since == made[0].due_at
    # Taken, they make way for as many.
    claims = world.claims(at(world, 60.0))
    for each in messages[:8]:
        assert claims.claim(each.reminder_id, each.delivery_key, uuid7(), 1e6) is not None
    world.published(at(world, 60.0))
    assert drain_of_scope(world.database, LOUD).held == 259 - 8


def test_what_is_put_off_after_its_turn_holds_up_none_of_the_others(world):
    burst(world, "loud", 100, age=3600)
    drain(world, rate=4.0)
    world.published(at(world, 0))
    world.scanning(now=at(world, 1.0)).once()
    # As what goes to a place that hangs, or whose breaker is half open, is put off for some seconds, again and again.
    world.sql("UPDATE reminders.due SET status = 'pending', wake_at = %s WHERE let_go_by IS NOT NULL", at(world, 6.1))
    assert drain_of_scope(world.database, LOUD).going == 0
    world.scanning(now=at(world, 2.0)).once()
    found = drain_of_scope(world.database, LOUD)
    assert found.going >= 4
    assert found.held == 100 - 41 - found.going


def test_what_a_full_rate_refuses_is_held_again_and_let_go_before_what_is_younger(world):
    made = burst(world, "loud", 30, age=3600)
    drained = drain(world, rate=1.0)
    world.published(at(world, 0))
    (message,) = world.published(at(world, 1.0))
    assert message.reminder_id == made[0].id
    tokens, provider = ScriptedTokens(refuses=0.7), ScriptedProvider()
    run = Admission(world.deliver(provider), KeptRates(world.database), tokens, PostgresTurns(world.database))
    assert run(message.reminder_id, message.delivery_key, message.caps) == "rate_limited"
    assert (tokens.asked, provider.calls) == ([[drained.id]], [])
    row = "SELECT status, hold_id::text, let_go_by, wake_at, due_since, attempts FROM reminders.due WHERE id = %s"
    assert world.sql(row, str(made[0].id)) == [("held", str(drained.id), None, None, made[0].due_at, 0)]
    order = [each for second in range(2, 16) for each in sent(world, float(second))]
    assert order.index(made[0].id) == 10
    assert made[11].id not in order[:11]


def test_said_again_it_changes_the_rate_and_takes_in_what_has_come_due_since(world):
    burst(world, "loud", 30, age=3600)
    first = drain(world, rate=0.01)
    sent(world, 0)
    later = burst(world, "loud", 5, age=5)
    again, created = begin_drain(world.database, LOUD, rate=100.0, **WORD)
    assert (again.id, created) == (first.id, False)
    everything = [each for second in range(1, 31) for each in sent(world, float(second))]
    assert len(everything) == 35
    assert {each.id for each in later} <= set(everything)


def test_stopped_it_holds_what_is_left_until_it_is_said_again(world):
    made = burst(world, "loud", 50, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    gone = set(sent(world, 1.1))
    stopped = stop_drain(world.database, LOUD, actor="bea", reason="too much")
    gone |= {each for second in range(2, 30) for each in sent(world, float(second))}
    assert stopped.held == drain_of_scope(world.database, LOUD).held == 50 - len(gone)
    assert stopped.going == 0
    assert len(gone) == 1
    (told,) = ledger_status(world.database)["drains"]
    assert (told.actor, told.reason, told.eta_seconds(world.lapse(0))) == ("bea", "too much", None)
    drain(world, rate=100.0)
    rest = {each for second in range(40, 50) for each in sent(world, float(second))}
    assert gone | rest == {each.id for each in made}


def test_stopped_when_only_turns_are_left_it_lets_go_nothing_more(world):
    made = burst(world, "loud", 5, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    (first,) = sent(world, 1.1)
    world.scanning(now=at(world, 2.5)).once()
    assert (drain_of_scope(world.database, LOUD).left, drain_of_scope(world.database, LOUD).going) == (0, 4)
    assert drains(world.database) != []
    (message,) = world.broker.take()
    assert stop_drain(world.database, LOUD, **WORD).held == 4
    assert world.claims().refusal(message.reminder_id, message.delivery_key) == "paused"
    assert [each for second in range(2, 20) for each in sent(world, float(second))] == []
    drain(world, rate=10.0)
    rest = [each for second in range(20, 23) for each in sent(world, float(second))]
    assert [first, *rest] == [each.id for each in made]


def test_what_a_resume_still_lets_go_is_not_drained_besides(world):
    burst(world, "loud", 50, age=3600)
    by = pauses.paused(world, tenant_id="loud")
    world.published()
    pauses.resumed(world, by, rate=1.0)
    with pytest.raises(Refused, match=rf"still lets go(?s:.)*resume {by} --rate"):
        drain(world)


def test_a_resume_at_a_rate_hides_no_lateness(world):
    burst(world, "loud", 50, age=3600)
    by = pauses.paused(world, tenant_id="loud")
    world.published()
    assert ledger_status(world.database)["oldest_due_age_seconds"] == 0
    pauses.resumed(world, by, rate=1.0)
    assert ledger_status(world.database)["oldest_due_age_seconds"] >= 3590
    sent(world, 0)
    assert ledger_status(world.database)["oldest_due_age_seconds"] >= 3590


def test_what_was_moved_to_another_time_belongs_to_the_drain_no_more(world):
    made = burst(world, "loud", 5, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    sent(world, 1.1)
    world.committed(reminders.reschedule, made[2].id, due_at=world.now + timedelta(hours=5))
    row = "SELECT status, let_go_by, due_since FROM reminders.due WHERE id = %s"
    assert world.sql(row, str(made[2].id)) == [("pending", None, None)]


def test_a_stopped_one_is_let_go_at_once_by_resume(world):
    burst(world, "loud", 20, age=3600)
    made = drain(world, rate=0.01)
    sent(world, 0)
    stop_drain(world.database, LOUD, **WORD)
    resume(world.database, [made.id], actor="ada", reason="well again")
    # Later than the drain began, by which what is let go is told from what is to be laid aside.
    assert len(sent(world, 60)) == 20


def test_it_is_done_once_nothing_is_left_and_then_there_is_none(world):
    burst(world, "loud", 5, age=3600)
    made = drain(world, rate=100.0)
    sent(world, 0)
    sent(world, 1.1)
    assert drain_of_scope(world.database, LOUD).drained_at is None
    sent(world, 2.2)
    sent(world, 3.3)
    found = drain_of_scope(world.database, LOUD)
    assert (found.id, found.left, found.drained_at is not None) == (made.id, 0, True)
    assert drains(world.database) == []
    with pytest.raises(NotFound):
        stop_drain(world.database, LOUD, **WORD)
    fresh = burst(world, "loud", 1, age=0)
    assert sent(world, 4.4) == [fresh[0].id]
    assert drain(world).id != made.id


def test_what_it_holds_can_be_cancelled_and_expires(world):
    kept = burst(world, "loud", 2, age=3600)
    (expiring,) = world.committed(
        reminders.schedule_many, [world.wanted(tenant_id="loud", expires_at=world.now + timedelta(seconds=20))]
    )
    drain(world, rate=0.001)
    sent(world, 0)
    assert world.status(kept[0].id)[0] == "held"
    assert world.committed(reminders.cancel, kept[0].id) == "cancelled"
    sent(world, 21)
    assert world.status(expiring.id)[0] == "expired"


def test_a_pause_of_the_same_is_resumed_instead(world):
    burst(world, "loud", 2)
    by = pauses.paused(world, tenant_id="loud")
    with pytest.raises(Refused, match=str(by)):
        drain(world)


def test_a_wider_pause_goes_before_it(world):
    burst(world, "loud", 2)
    drain(world, rate=100.0)
    by = pauses.paused(world)
    assert sent(world, 0) == []
    assert {str(each) for (each,) in world.sql("SELECT hold_id FROM reminders.due")} == {str(by)}


@pytest.mark.parametrize("wider", [{}, {"tenant_id": "loud"}], ids=["all", "the same"])
def test_paused_meanwhile_it_keeps_its_rate_and_what_has_come_due_since_does_not_wait_behind_it(world, wider):
    burst(world, "loud", 200, age=3600)
    drain(world, rate=1.0)
    assert sent(world, 0) == []
    by = pauses.paused(world, **wider)
    fresh = world.schedule(tenant_id="loud")
    for second in range(1, 20):
        assert sent(world, float(second)) == []
    pauses.resumed(world, by)
    order = [each for second in range(20, 41) for each in sent(world, float(second))]
    assert fresh.id in order[: round(AHEAD) + 3]
    # Those that had their turns when it was paused, and 21 seconds' worth.
    assert len(order) <= 1 + (1 + AHEAD) + 21


def test_two_scanners_at_once_give_no_turn_out_twice(world):
    burst(world, "loud", 200, age=3600)
    drain(world, rate=1.0)
    scanners = [world.scanning(batch=50, in_flight=10_000) for _ in range(4)]
    for running in [world.start(each.once) for each in scanners for _ in range(4)]:
        running.result()
    assert world.sql("SELECT count(*) FROM reminders.due WHERE status = 'pending'")[0][0] <= AHEAD + 1


def test_nobody_unnamed_drains(world):
    with pytest.raises(InvalidInput):
        begin_drain(world.database, LOUD, rate=1.0, actor="", reason="r")

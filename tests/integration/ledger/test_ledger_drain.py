"""A drain works off what was due when it began, oldest first, at a rate of the ledger's own; lateness is never hidden."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.test_ledger_rates import burst
from integration.ledger.world import World
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.identity import destination_id
from reminders.domain.pauses import PauseScope
from reminders.ledger.draining import begin_drain, drain_of_scope, drains, stop_drain
from reminders.ledger.pausing import pauses as listed
from reminders.ledger.pausing import resume
from reminders.ledger.releasing import AHEAD
from reminders.ledger.status import ledger_status

LOUD = PauseScope(tenant_id="loud")
WORD = {"actor": "ada", "reason": "after the outage"}


def drain(world: World, rate: float = 10.0, scope: PauseScope = LOUD):
    return begin_drain(world.database, scope, rate=rate, **WORD)[0]


def sent(world: World, seconds: float):
    """The ids that one pass sends, `seconds` from now; the sweep comes before the lease."""
    world.scanning(now=world.lapse(seconds), in_flight=10_000, batch=10_000).once()
    return [message.reminder_id for message in world.broker.take()]


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
    assert found.eta_seconds(world.lapse(0)) == pytest.approx(50, abs=3)
    assert found.oldest_since < world.lapse(0) - timedelta(minutes=59)
    told = ledger_status(world.database)
    assert told["oldest_due_age_seconds"] >= 3590
    assert [each.id for each in told["drains"]] == [made.id]
    assert told["pauses"] == []
    assert listed(world.database, ended=True) == []


def test_said_again_it_changes_the_rate_and_takes_in_what_has_come_due_since(world):
    burst(world, "loud", 30, age=3600)
    first = drain(world, rate=0.01)
    sent(world, 0)
    later = burst(world, "loud", 5, age=5)
    again, created = begin_drain(world.database, LOUD, rate=100.0, **WORD)
    assert (again.id, created) == (first.id, False)
    everything = [each for second in range(1, 14) for each in sent(world, float(second))]
    assert len(everything) == 35
    assert {each.id for each in later} <= set(everything)


def test_stopped_it_holds_what_is_left_until_it_is_said_again(world):
    made = burst(world, "loud", 50, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    gone = set(sent(world, 1.1))
    stopped = stop_drain(world.database, LOUD, actor="bea", reason="too much")
    gone |= {each for second in range(2, 30) for each in sent(world, float(second))}
    assert stopped.held == drain_of_scope(world.database, LOUD).held == 50 - int(AHEAD) - 1
    assert len(gone) == int(AHEAD) + 1
    (told,) = ledger_status(world.database)["drains"]
    assert (told.actor, told.reason, told.eta_seconds(world.lapse(0))) == ("bea", "too much", None)
    drain(world, rate=100.0)
    rest = {each for second in range(40, 50) for each in sent(world, float(second))}
    assert gone | rest == {each.id for each in made}


def test_a_stopped_one_is_let_go_at_once_by_resume(world):
    burst(world, "loud", 20, age=3600)
    made = drain(world, rate=0.01)
    sent(world, 0)
    stop_drain(world.database, LOUD, **WORD)
    resume(world.database, [made.id], actor="ada", reason="well again")
    assert len(sent(world, 1.1)) == 20


def test_it_is_done_once_nothing_is_left_and_then_there_is_none(world):
    burst(world, "loud", 5, age=3600)
    made = drain(world, rate=100.0)
    sent(world, 0)
    sent(world, 1.1)
    sent(world, 2.2)
    found = drain_of_scope(world.database, LOUD)
    assert (found.id, found.left, found.drained_at is not None) == (made.id, 0, True)
    assert drains(world.database) == []
    with pytest.raises(NotFound):
        stop_drain(world.database, LOUD, **WORD)
    fresh = burst(world, "loud", 1, age=0)
    assert sent(world, 3.3) == [fresh[0].id]
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

"""What a drain or a resume lets go at a rate keeps the rate that was said for it last, whatever pauses cover a part of it meanwhile."""

from __future__ import annotations

import time

import pytest

from integration.ledger import pauses, tenants
from integration.ledger.test_ledger_drain import LOUD, WORD, drain, sent
from integration.ledger.test_ledger_rates import burst
from integration.ledger.world import World
from reminders.domain.identity import destination_id
from reminders.domain.pauses import PauseScope
from reminders.ledger.draining import drain_of_scope, drains, stop_drain
from reminders.ledger.pausing import pauses as listed
from reminders.ledger.pausing import resume
from reminders.ledger.releasing import AHEAD
from reminders.ledger.status import ledger_status
from reminders.operate.other_retention import purge_others

MANY = 120
OTHERS = {
    "channel": {"channel": "log"},
    "kind": {"kind": "note"},
    "destination": {"destination_id": destination_id("loud", "log", "place")},
    "all of its parts": {"tenant_id": "loud", "channel": "log", "kind": "note"},
}


def drained(world: World) -> None:
    drain(world, rate=1.0)


def resumed(world: World) -> None:
    by = pauses.paused(world, tenant_id="loud")
    sent(world, 0)
    pauses.resumed(world, by, rate=1.0)


def held_by(world: World) -> dict[str, int]:
    return dict(
        world.sql("SELECT hold_id::text, count(*) FROM reminders.due WHERE hold_id IS NOT NULL GROUP BY hold_id")
    )


def goes_at_one_a_second(world: World) -> None:
    """21 seconds' worth, that of the seconds which the passes themselves take, and what had a turn within the same second."""
    begun = time.monotonic()
    number = sum(len(sent(world, float(second))) for second in range(15, 36))
    assert 15 <= number <= 21 + time.monotonic() - begun + 3


@pytest.mark.parametrize("rated", [drained, resumed])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_paused_in_part_meanwhile_it_goes_on_at_its_rate(world, rated, other):
    burst(world, "loud", MANY, age=3600)
    rated(world)
    assert len(sent(world, 0)) <= 1
    by = pauses.paused(world, **other)
    for second in range(1, 15):
        assert sent(world, float(second)) == []
    assert str(by) in held_by(world)
    pauses.resumed(world, by)
    goes_at_one_a_second(world)
    assert world.sql("SELECT count(*) FROM reminders.due WHERE rated_by IS NOT NULL AND status <> 'held'") == [(0,)]


def test_what_had_its_turn_when_the_pause_met_it_keeps_the_rate_too(world):
    burst(world, "loud", MANY, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    # A message that was on its way, refused at its claim.
    (message,) = world.published(world.lapse(1.1))[:1]
    by = pauses.paused(world, channel="log")
    assert world.claims(world.lapse(1.2)).refusal(message.reminder_id, message.delivery_key) == "paused"
    assert str(world.column("due", "rated_by", message.reminder_id)) == str(drain_of_scope(world.database, LOUD).id)
    pauses.resumed(world, by)
    sent(world, 2.0)
    assert str(world.column("due", "hold_id", message.reminder_id)) == str(drain_of_scope(world.database, LOUD).id)


def test_a_pause_that_is_resumed_at_a_rate_has_said_it_last(world):
    burst(world, "loud", MANY, age=3600)
    drain(world, rate=0.01)
    sent(world, 0)
    by = pauses.paused(world, channel="log")
    for second in range(1, 15):
        sent(world, float(second))
    (told,) = pauses.resumed(world, by, rate=2.0)
    # Each sweep found one whose turn would have come. The others never left the drain.
    assert told.held == held_by(world)[str(by)] == 14
    order = [each for second in range(15, 24) for each in sent(world, float(second))]
    assert 14 <= len(order) <= 14 + 1


def test_of_several_pauses_one_after_the_other_the_rate_that_was_said_last_stays(world):
    burst(world, "loud", MANY, age=3600)
    first, second = pauses.paused(world, tenant_id="loud"), pauses.paused(world, channel="log")
    sent(world, 0)
    assert held_by(world) == {str(first): MANY}
    pauses.resumed(world, first, rate=50.0)
    sent(world, 1.1)
    assert held_by(world) == {str(second): MANY}
    third = pauses.paused(world, kind="note")
    pauses.resumed(world, second, rate=1.0)
    for at in range(3, 15):
        assert sent(world, float(at)) == []
    pauses.resumed(world, third)
    goes_at_one_a_second(world)


def test_a_tenant_that_is_off_meanwhile_keeps_the_rate_of_a_drain_of_all(world):
    burst(world, "loud", MANY, age=3600)
    drain(world, rate=1.0, scope=PauseScope())
    sent(world, 0)
    tenants.moded(world, "off", "loud")
    for second in range(1, 15):
        assert sent(world, float(second)) == []
    tenants.moded(world, "live", "loud")
    goes_at_one_a_second(world)


def test_a_drain_shows_what_is_paused_meanwhile_and_is_not_done_before_that_is(world):
    burst(world, "loud", 5, age=3600)
    made = drain(world, rate=1.0)
    sent(world, 0)
    by = pauses.paused(world, channel="log")
    for second in range(1, 4):
        sent(world, float(second))
    assert set(held_by(world)) == {str(by)}
    (found,) = drains(world.database)
    assert (found.id, found.held, found.drained_at) == (made.id, 5, None)
    # What an active pause holds is late for nobody's fault.
    assert (ledger_status(world.database)["oldest_due_age_seconds"] or 0) < 3000
    world.sql(
        "UPDATE reminders.pauses SET released_at = now() - interval '1 year', ended_at = now() - interval '1 year' WHERE id = %s RETURNING 1",
        str(made.id),
    )
    purge_others(world.database, reminders=86400.0, evidence=86400.0)
    pauses.resumed(world, by)
    for second in range(4, 16):
        sent(world, float(second))
    assert drain_of_scope(world.database, LOUD).drained_at is not None


def test_a_drain_that_was_stopped_meanwhile_holds_what_comes_back(world):
    burst(world, "loud", 5, age=3600)
    made = drain(world, rate=1.0)
    sent(world, 0)
    by = pauses.paused(world, channel="log")
    for second in range(1, 4):
        sent(world, float(second))
    stop_drain(world.database, LOUD, **WORD)
    pauses.resumed(world, by)
    for second in range(4, 4 + int(AHEAD) + 5):
        assert sent(world, float(second)) == []
    assert held_by(world) == {str(made.id): 5}
    resume(world.database, [made.id], actor="ada", reason="well again")
    assert len(sent(world, 30.0)) == 5


def test_what_a_pause_alone_held_goes_at_once_and_waits_behind_none_of_it(world):
    burst(world, "loud", MANY, age=3600)
    drain(world, rate=1.0)
    sent(world, 0)
    by = pauses.paused(world, channel="log")
    fresh = world.schedule(tenant_id="loud")
    for second in range(1, 5):
        sent(world, float(second))
    pauses.resumed(world, by)
    assert fresh.id in sent(world, 5.0)
    assert [each.id for each in listed(world.database)] == []

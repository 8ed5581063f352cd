"""A destination that does not answer: queue `retry` serves it, its breaker opens, one probe at a time closes it, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from integration.ledger.world import ScriptedProvider, World
from reminders.domain.breaker import BreakerPolicy, Samples
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.ledger.destination_state import disable, enable, release_destination
from reminders.ledger.destinations import find
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.limiting import RETRIES_OF_ONE
from reminders.ledger.notices import notices
from reminders.pipeline.ports import Report

PLACE = ("tenant-a", "log", "somewhere")
DOWN = Retry("connect_refused", "the connection was refused")
HANGS = Unknown("deadline", "no answer before the deadline", timed_out=True)
POLICY = BreakerPolicy(window=60.0, calls=3, share=0.5, open_for=30.0, longest=100.0)


def call(world: World, made, outcome, seconds: float = 0.0, samples: Samples | None = None):
    """Publish what is due and call for this one, `seconds` from now."""
    now = world.lapse(seconds)
    world.published(now)
    return finish(world, made, outcome, seconds, samples)


def ending(world: World, seconds: float = 0.0, samples: Samples | None = None):
    """How a worker with this policy, and samples of its own, records outcomes."""
    now = world.lapse(seconds)
    ledger = PostgresFinalize(world.database, worker="worker-1", now=now, breaker=POLICY)
    return replace(world.finalizing(now=now, ledger=ledger), samples=samples or Samples(POLICY))


def finish(world: World, made, outcome, seconds: float = 0.0, samples: Samples | None = None):
    end = ending(world, seconds, samples)
    return world.deliver(ScriptedProvider(outcome), now=world.lapse(seconds), finalize=end)(made.id, made.delivery_key)


def opened(world: World, count: int = 3):
    """A destination of which the last calls of one worker have failed; the failed reminders."""
    samples = Samples(POLICY)
    made = [world.schedule() for _ in range(count)]
    for each in made:
        call(world, each, DOWN, samples=samples)
    assert found(world).breaker == "open"
    return made


def found(world: World):
    return find(world.database, *PLACE)


def test_it_opens_and_what_comes_due_is_parked_with_the_reason_and_burns_nothing(world):
    opened(world)
    place = found(world)
    assert "breaker open" in place.hold_reason
    assert timedelta(seconds=25) < place.held_until - world.lapse(0) <= timedelta(seconds=30)
    fresh = world.schedule()
    assert world.published() == []
    assert world.status(fresh.id) == ("pending", None)
    assert world.column("due", "attempts", fresh.id) == 0
    assert [(each.kind, each.destination_id) for each in notices(world.database)] == [("breaker_opened", place.id)]


def test_a_message_on_its_way_is_refused(world):
    made = [world.schedule() for _ in range(4)]
    world.published()
    samples = Samples(POLICY)
    for each in made[:3]:
        finish(world, each, DOWN, samples=samples)
    provider = ScriptedProvider()
    assert world.deliver(provider)(made[3].id, made[3].delivery_key) == "destination_held"
    assert provider.calls == []


def test_half_open_one_reminder_asks_and_its_success_lets_the_others_go(world):
    opened(world)
    fresh = [world.schedule() for _ in range(5)]
    (probe,) = world.published(world.lapse(40))
    assert found_at(world) == ("half_open", 1)
    assert world.published(world.lapse(60)) == []
    waiting = [each for each in fresh if each.id != probe.reminder_id]
    assert finish_message(world, probe, Delivered("r"), 60) == "delivered"
    assert (found(world).breaker, found(world).breaker_times, found(world).failing_since) == ("closed", 0, None)
    assert {each.id for each in waiting} <= {message.reminder_id for message in world.published(world.lapse(80))}


def found_at(world: World):
    ((half_open, times),) = world.sql(
        "SELECT breaker_opened_at IS NOT NULL AND probe_id IS NOT NULL, breaker_times FROM reminders.destinations"
    )
    return "half_open" if half_open else "other", times


def finish_message(world: World, message, outcome, seconds: float):
    end = ending(world, seconds)
    run = world.deliver(ScriptedProvider(outcome), now=world.lapse(seconds), finalize=end)
    return run(message.reminder_id, message.delivery_key)


def test_a_failed_probe_opens_it_for_twice_as_long_up_to_a_bound_with_no_further_notice(world):
    opened(world)
    world.schedule()
    at = 0.0
    for seconds in (60, 100, 100):
        at += 200.0
        (probe,) = world.published(world.lapse(at))
        before = world.lapse(at)
        finish_message(world, probe, DOWN, at)
        assert before <= found(world).held_until - timedelta(seconds=seconds) <= world.lapse(at)
    assert found(world).breaker_times == 4
    assert len(notices(world.database)) == 1


@pytest.mark.parametrize(
    ("outcome", "breaker"),
    [
        (Rejected("http_404", "HTTP 404", 404), "closed"),
        (Blocked("destination", timedelta(seconds=10), "http_429", "HTTP 429", 429), "open"),
        (Retry("allowance_unknown", "ours", blameless=True), "half_open"),
    ],
    ids=["refused", "asked to wait", "blameless"],
)
def test_what_else_a_probe_may_come_to(world, outcome, breaker):
    opened(world)
    world.schedule()
    (probe,) = world.published(world.lapse(40))
    finish_message(world, probe, outcome, 40)
    world.sql("UPDATE reminders.destinations SET hold_until = hold_until - interval '40 seconds'")
    assert found(world).breaker == breaker
    assert world.published(world.lapse(60))


def test_a_late_success_of_another_call_does_not_close_it(world):
    made = [world.schedule() for _ in range(4)]
    world.published()
    slow = world.claim(made[3])
    samples = Samples(POLICY)
    for each in made[:3]:
        finish(world, each, DOWN, samples=samples)
    assert world.finalize(slow, Delivered("r")) == "delivered"
    assert found(world).breaker == "open"
    assert found(world).failing_since is None


def test_a_probe_that_is_lost_is_followed_by_another(world):
    opened(world)
    world.schedule()
    (probe,) = world.published(world.lapse(40))
    assert world.published(world.lapse(100)) == []
    (again,) = world.published(world.lapse(40 + 121))
    assert str(again.reminder_id) == str(world.sql("SELECT probe_id FROM reminders.destinations")[0][0])
    assert probe.reminder_id in {message[0] for message in world.sql("SELECT id FROM reminders.due")}


def test_two_scanners_at_once_choose_one_probe(world):
    opened(world)
    for _ in range(20):
        world.schedule()
    scanners = [world.scanning(now=world.lapse(60), batch=5, in_flight=100) for _ in range(4)]
    for running in [world.start(each.once) for each in scanners]:
        running.result()
    assert len(world.broker.take()) == 1


def test_an_operator_may_reset_it(world):
    opened(world)
    fresh = world.schedule()
    world.published()
    woken, held = release_destination(world.database, destination_id(*PLACE))
    assert (woken, held) == (1, True)
    assert (found(world).breaker, found(world).held_until) == ("closed", None)
    assert [each.reminder_id for each in world.published()] == [fresh.id]


def test_disabling_goes_before_it_and_enabling_closes_it(world):
    opened(world)
    disable(world.database, PLACE, "gone")
    world.schedule()
    (message, *_) = world.published(world.lapse(40))
    assert world.deliver(ScriptedProvider(), now=world.lapse(40))(message.reminder_id, message.delivery_key) == "dead"
    enable(world.database, PLACE, "back")
    assert found(world).breaker == "closed"


def test_a_pause_asked_for_that_is_longer_stands(world):
    made = [world.schedule() for _ in range(4)]
    world.published()
    claims = [world.claim(each) for each in made]
    end = ending(world, samples=Samples(POLICY))
    end(claims[0], Report(Blocked("destination", timedelta(hours=1), "http_429", "HTTP 429", 429), 3, None))
    for claim in claims[1:]:
        end(claim, Report(DOWN, 3, None))
    place = found(world)
    assert place.breaker == "open"
    assert place.held_until - world.lapse(0) > timedelta(minutes=59)
    assert place.hold_reason == "HTTP 429"


def test_samples_of_calls_that_worked_as_often_open_nothing():
    samples = Samples(POLICY)
    place = destination_id(*PLACE)
    answers = [samples.note(place, each) for each in (DOWN, Delivered(), Delivered(), Delivered(), DOWN)]
    assert answers == [False] * 5


@pytest.mark.parametrize("outcome", [DOWN, HANGS], ids=["refused", "hangs"])
def test_samples_open_at_the_share_of_at_least_so_many_calls_within_the_window(outcome):
    clock = [0.0]
    samples = Samples(POLICY, clock=lambda: clock[0])
    place = destination_id(*PLACE)
    assert [samples.note(place, outcome) for _ in range(2)] == [False, False]
    clock[0] = 61.0
    assert [samples.note(place, each) for each in (outcome, Delivered(), outcome)] == [False, False, True]


def test_refusals_and_pauses_are_no_sign_of_ill_health():
    samples = Samples(POLICY)
    place = destination_id(*PLACE)
    well = [Rejected("http_404", "r"), Blocked("destination", timedelta(1), "c", "r"), Retry("c", "r", blameless=True)]
    assert not any(samples.note(place, each) for each in well * 5)


def test_the_breaker_can_be_turned_off():
    samples = Samples(BreakerPolicy(share=0.0))
    assert not any(samples.note(destination_id(*PLACE), DOWN) for _ in range(50))


def routes(world: World):
    return sorted(message.route for message in world.broker.take())


def test_a_destination_whose_last_call_timed_out_is_served_by_queue_retry_a_few_at_a_time(world):
    first = world.schedule()
    call(world, first, HANGS)
    assert found(world).timed_out_at is not None
    for _ in range(20):
        world.schedule()
    for _ in range(5):
        world.schedule(destination="elsewhere")
    world.scanning(in_flight=100).once()
    assert routes(world) == ["deliver"] * 5 + ["retry"] * RETRIES_OF_ONE
    world.scanning(now=world.lapse(4), in_flight=100).once()
    assert routes(world) == []


@pytest.mark.parametrize("outcome", [Delivered("r"), DOWN, Rejected("http_404", "r", 404)], ids=lambda each: each.name)
def test_once_it_answers_again_queue_deliver_serves_it(world, outcome):
    call(world, world.schedule(), HANGS)
    second = world.schedule()
    assert call(world, second, outcome) in {"delivered", "parked", "dead"}
    assert found(world).timed_out_at is None
    world.schedule()
    world.scanning().once()
    assert routes(world) == ["deliver"]

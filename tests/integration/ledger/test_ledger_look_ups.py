"""Where nothing deduplicates but the far side can be asked: what is unknown is looked up, never sent again unasked (G4)."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import CLAIM, AskedProvider, ScriptedProvider
from reminders.domain.look_ups import Absent, Found, Undecided
from reminders.domain.outcomes import Delivered, Unknown
from reminders.ledger.destinations import set_deduplicates
from reminders.pipeline.finalize import RetryPolicy

LOST = Unknown("timeout", "no answer")
NOTHING = Undecided("http_503", "come back later", 503)
MINUTE = 60.0


@pytest.fixture(autouse=True)
def can_be_asked(world):
    world.look_ups = ("log",)


def run(world, made, provider, minutes=0.0, **parts):
    """A worker carries the reminder's message through, `minutes` from now."""
    now = world.lapse(minutes * MINUTE)
    world.published(now)
    return world.deliver(provider, now=now, **parts)(made.id, made.delivery_key)


def uncertain(world, made):
    return world.column("notification_deliveries", "uncertain_since", made.id)


def decisions(world, made):
    query = "SELECT outcome, decision FROM reminders.delivery_attempts WHERE reminder_id = %s ORDER BY claim_number"
    return world.sql(query, str(made.id))


def lost(world, provider, **wanted):
    made = world.schedule(deduplicates=False, **wanted)
    assert run(world, made, provider) == "parked"
    return made


def test_an_unknown_outcome_is_parked_for_a_look_up(world):
    provider = AskedProvider(LOST)
    made = lost(world, provider)
    assert world.status(made.id) == ("pending", "retrying")
    assert world.column("notification_deliveries", "on_unknown", made.id) == "look_up"
    assert (len(provider.calls), provider.asked) == (1, [])


def test_what_is_found_is_delivered_without_another_call(world):
    provider = AskedProvider(LOST, answers=[Found("their-7", 200)])
    made = lost(world, provider)
    assert run(world, made, provider, 1) == "delivered"
    assert (len(provider.calls), provider.asked) == (1, [made.delivery_key])
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.column("notification_deliveries", "provider_reference", made.id) == "their-7"
    assert uncertain(world, made) is None
    assert decisions(world, made) == [("unknown", "retry in 5.0 s"), ("delivered", "look-up: delivered")]


def test_what_is_absent_is_certain_again_and_sent_at_once_with_the_same_key_and_body(world):
    provider = AskedProvider(LOST, Delivered("second"), answers=[Absent("no such key", 404)])
    made = lost(world, provider)
    assert run(world, made, provider, 1) == "parked"
    assert uncertain(world, made) is None
    assert len(provider.calls) == 1
    assert run(world, made, provider, 1.1) == "delivered"
    assert [call[:2] for call in provider.calls] == [(made.delivery_key, b"body")] * 2
    assert world.attempts(made.id) == [
        (1, "unknown", "timeout"),
        (2, "retry", "looked_up_absent"),
        (3, "delivered", ""),
    ]
    assert decisions(world, made)[1] == ("retry", "look-up: retry in 0.0 s")


def test_each_new_unknown_outcome_is_looked_up_anew(world):
    provider = AskedProvider(LOST, LOST, answers=[Absent(), Found()])
    made = lost(world, provider)
    answers = [run(world, made, provider, minutes) for minutes in (1, 2, 10)]
    assert answers == ["parked", "parked", "delivered"]
    assert (len(provider.calls), len(provider.asked)) == (2, 2)


def test_an_undecided_look_up_is_asked_again_by_the_delays_until_the_attempts_are_used_up(world):
    provider = AskedProvider(LOST, answers=[NOTHING] * 9)
    made = world.schedule(deduplicates=False)
    policy = RetryPolicy(max_attempts=4, delays=(5.0, 30.0, 300.0), max_wait=1e6)
    answers = []
    for minutes in (0, 1, 5, 30):
        finalize = world.finalizing(now=world.lapse(minutes * MINUTE), policy=policy)
        answers.append(run(world, made, provider, minutes, finalize=finalize))
    assert answers == ["parked", "parked", "parked", "dead"]
    assert world.letters(made.id) == [("unknown", "open", "http_503")]
    assert uncertain(world, made) is not None
    assert decisions(world, made) == [
        ("unknown", "retry in 5.0 s"), ("unknown", "look-up: asked again in 30.0 s"),
        ("unknown", "look-up: asked again in 300.0 s"), ("unknown", "look-up: dead letter: unknown"),
    ]  # fmt: skip
    assert len(provider.calls) == 1


def test_an_absent_key_at_the_end_of_the_attempts_is_a_letter_that_is_certain(world):
    provider = AskedProvider(LOST, answers=[Absent()])
    made = lost(world, provider)
    policy = RetryPolicy(max_attempts=2, delays=(5.0,), max_wait=1e6)
    now = world.lapse(MINUTE)
    assert run(world, made, provider, 1, finalize=world.finalizing(now=now, policy=policy)) == "dead"
    assert world.letters(made.id) == [("destination", "open", "looked_up_absent")]
    assert uncertain(world, made) is None
    assert world.redrive(made) == [made.id]


def test_all_looking_up_is_bounded_in_time(world):
    provider = AskedProvider(LOST, answers=[NOTHING, Absent()])
    made, other = lost(world, provider), lost(world, AskedProvider(LOST))
    policy = RetryPolicy(max_attempts=99, delays=(5.0,), max_wait=100.0)
    for each in (made, other):
        finalize = world.finalizing(now=world.lapse(3 * MINUTE), policy=policy)
        assert run(world, each, provider, 3, finalize=finalize) == "dead"
    assert [world.letters(each.id)[0][0] for each in (made, other)] == ["unknown", "destination"]


@pytest.mark.parametrize(
    "broken", [lambda: 1 / 0, lambda: None, lambda: Delivered("x")], ids=["raises", "nothing", "an outcome"]
)
def test_a_provider_that_breaks_its_promise_has_decided_nothing(world, broken):
    provider = AskedProvider(LOST, answers=[broken])
    made = lost(world, provider)
    assert run(world, made, provider, 1) == "parked"
    assert uncertain(world, made) is not None
    assert run(world, made, provider, 5) == "delivered"
    assert len(provider.calls) == 1


def test_a_worker_that_died_in_its_call_leaves_a_look_up_and_no_review(world):
    made = world.schedule(deduplicates=False)
    world.opened(made)
    assert world.repair() == 1
    assert world.status(made.id) == ("pending", "retrying")
    assert world.attempts(made.id) == [(1, "unknown", "worker_lost")]
    assert decisions(world, made) == [("unknown", "look the key up, alone")]
    provider = AskedProvider()
    assert run(world, made, provider, (CLAIM + 2) / MINUTE) == "delivered"
    assert (provider.calls, provider.asked) == ([], [made.delivery_key])


def test_a_worker_that_died_in_its_look_up_leaves_another_one(world):
    made = lost(world, AskedProvider(LOST))
    assert world.opened(made, now=world.lapse(MINUTE)).asks
    world.repair(MINUTE + CLAIM + 1)
    assert world.attempts(made.id)[1:] == [(2, "unknown", "worker_lost")]
    provider = AskedProvider(answers=[Absent()])
    assert run(world, made, provider, 3) == "parked"
    assert (provider.calls, provider.asked) == ([], [made.delivery_key])


def test_cancelled_between_unknown_and_look_up_it_goes_to_review(world):
    made = lost(world, AskedProvider(LOST))
    assert world.committed(reminders.cancel, made.id) == "maybe_sent"
    assert world.status(made.id) == ("dead", "unknown")


@pytest.mark.parametrize(
    ("answer", "word", "status"),
    [
        (Found(), "delivered", ("delivered", "delivered")),
        (Absent(), "cancelled", ("cancelled", "cancelled")),
        (NOTHING, "dead", ("dead", "unknown")),
    ],
)
def test_cancelled_during_the_look_up_its_answer_decides(world, answer, word, status):
    made = lost(world, AskedProvider(LOST))

    def meanwhile():
        assert world.committed(reminders.cancel, made.id) == "requested"
        return answer

    assert run(world, made, AskedProvider(answers=[meanwhile]), 1) == word
    assert world.status(made.id) == status
    assert (uncertain(world, made) is None) == (answer is not NOTHING)


@pytest.mark.usefixtures("impatient")
def test_recorded_alone_a_decisive_look_up_is_carried_over_as_certain(world):
    made = lost(world, AskedProvider(LOST))
    holder = world.connect()

    def meanwhile():
        assert reminders.cancel(holder, made.id) == "requested"
        return Absent()

    assert run(world, made, AskedProvider(answers=[meanwhile]), 1) == "parked"
    holder.commit()
    world.repair(MINUTE + CLAIM + 1)
    assert world.status(made.id) == ("cancelled", "cancelled")


def test_what_expires_before_its_look_up_goes_to_review(world):
    made = lost(world, AskedProvider(LOST), expires_at=world.now + timedelta(minutes=10))
    provider = AskedProvider()
    assert run(world, made, provider, 11) == "dead"
    assert world.letters(made.id) == [("unknown", "open", "expired_while_uncertain")]
    assert provider.asked == []


def test_a_success_reported_late_needs_no_look_up(world):
    made = world.schedule(deduplicates=False)
    claim = world.opened(made)
    world.repair()
    world.finalize(claim, Delivered("late"))
    provider = AskedProvider()
    assert run(world, made, provider, 1) == "delivered"
    assert provider.asked == []


def test_a_late_absence_makes_nothing_certain(world):
    """Its claim has lapsed and another one may have sent since: what it saw is on record, and that is all."""
    made = lost(world, AskedProvider(LOST))
    old = world.opened(made, now=world.lapse(MINUTE))
    world.repair(MINUTE + CLAIM + 1)
    assert world.finalizing().looked_up(old, Absent(), 3) == "lapsed"
    assert uncertain(world, made) is not None
    assert world.attempts(made.id)[1] == (2, "retry", "looked_up_absent")


def test_where_it_deduplicates_the_same_is_sent_again_and_nobody_asks(world):
    made = world.schedule()
    provider = AskedProvider(LOST)
    run(world, made, provider)
    assert run(world, made, provider, 1) == "delivered"
    assert (len(provider.calls), provider.asked) == (2, [])


def test_an_answer_that_may_hide_an_effect_is_looked_up_too(world):
    provider = AskedProvider(Unknown("http_502", "bad gateway", 502))
    made = lost(world, provider)
    assert world.attempts(made.id) == [(1, "unknown", "http_502")]
    assert run(world, made, provider, 1) == "delivered"
    assert len(provider.calls) == 1


def test_a_worker_without_the_capability_gives_the_look_up_back(world):
    made = lost(world, AskedProvider(LOST))
    world.look_ups = ()
    plain = ScriptedProvider()
    assert run(world, made, plain, 1) == "given_back"
    assert (plain.calls, world.status(made.id)) == ([], ("pending", "retrying"))
    assert uncertain(world, made) is not None


def test_once_its_destination_is_said_to_deduplicate_it_is_sent_again(world):
    provider = AskedProvider(LOST)
    made = lost(world, provider)
    set_deduplicates(world.database, "tenant-a", "log", "somewhere", deduplicates=True)
    assert run(world, made, provider, 1) == "delivered"
    assert (len(provider.calls), provider.asked) == (2, [])


def test_a_look_up_that_no_longer_fits_into_the_claim_is_not_made(world):
    made = lost(world, AskedProvider(LOST))
    clock = iter([0.0, CLAIM - 14.0])
    provider = AskedProvider()
    assert run(world, made, provider, 1, clock=lambda: next(clock)) == "given_back"
    assert provider.asked == []


def test_nobody_asks_before_the_far_side_can_know(world):
    """However soon the look-up comes due; and waiting burns nothing."""
    provider = AskedProvider(LOST)
    provider.settle = 90.0
    made = lost(world, provider)
    assert run(world, made, provider, 0.2) == "given_back"
    assert provider.asked == []
    claimed_at = world.column("notification_deliveries", "uncertain_since", made.id)
    wake_at = world.column("due", "wake_at", made.id)
    assert abs((wake_at - claimed_at).total_seconds() - 90) < 1
    assert run(world, made, provider, 1.6) == "delivered"
    assert (len(provider.calls), len(provider.asked)) == (1, 1)
    assert len(world.attempts(made.id)) == 2


def test_after_a_workers_death_too_nobody_asks_before_the_far_side_can_know(world):
    made = world.schedule(deduplicates=False)
    world.opened(made)
    world.repair()
    provider = AskedProvider()
    provider.settle = 90.0
    assert run(world, made, provider, (CLAIM + 2) / MINUTE) == "given_back"
    assert provider.asked == []
    assert run(world, made, provider, 2) == "delivered"
    assert provider.asked == [made.delivery_key]


def test_what_asking_again_cannot_decide_goes_to_review_at_once(world):
    provider = AskedProvider(LOST, answers=[Undecided("several_found", "two", final=True)])
    made = lost(world, provider)
    assert run(world, made, provider, 1) == "dead"
    assert world.letters(made.id) == [("unknown", "open", "several_found")]
    assert uncertain(world, made) is not None
    assert (len(provider.calls), len(provider.asked)) == (1, 1)


def test_a_look_up_that_was_put_off_until_the_far_side_has_settled_is_no_attempt_and_burns_nothing(world):
    provider = AskedProvider(LOST, answers=[Found("their-7", 200)])
    provider.settle = 10 * MINUTE
    made = lost(world, provider)
    counts = [reminders.get(world.connect(), made.id).attempt_count]
    assert run(world, made, provider, 1) == "given_back"
    counts.append(reminders.get(world.connect(), made.id).attempt_count)
    assert (counts, world.column("due", "attempts", made.id), provider.asked) == ([1, 1], 1, [])
    assert run(world, made, provider, 20) == "delivered"
    assert len(decisions(world, made)) == reminders.get(world.connect(), made.id).attempt_count == 2

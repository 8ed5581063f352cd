"""Pauses: what a far side asks for holds its whole destination, burns nothing, and is bounded."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import CLAIM, MAX_WAIT, ScriptedProvider
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.ledger.holding import HOLD_SPREAD

PAUSE = Blocked("destination", timedelta(seconds=90), "http_429", "HTTP 429: slow down", 429)
REFUSED = Blocked("provider", timedelta(minutes=5), "credentials", "our credentials were refused", 535)
LOST = Unknown("timeout", "no answer", timed_out=True)
HOME = destination_id("tenant-a", "log", "somewhere")


def hold_of(world, place=HOME):
    rows = world.sql("SELECT hold_until, hold_reason FROM reminders.destinations WHERE id = %s", str(place))
    return rows[0] if rows else None


def wakes(world, made):
    return world.column("due", "wake_at", made.id)


def publish_as_if_free(world, now):
    """As a scan would that looked just before the hold."""
    world.sql("UPDATE reminders.destinations SET hold_until = hold_until - interval '2 days', hold_reason = 'over'")
    world.published(now)
    world.sql("UPDATE reminders.destinations SET hold_until = hold_until + interval '2 days'")


def test_a_pause_burns_no_attempt_and_is_on_record(world):
    made = world.schedule()
    now = world.lapse(2)
    assert world.finalize(world.opened(made), PAUSE, now=now) == "held"
    end = now + timedelta(seconds=90)
    assert world.status(made.id) == ("pending", "retrying")
    assert world.column("due", "attempts", made.id) == 0
    assert end <= wakes(world, made) <= end + timedelta(seconds=HOLD_SPREAD)
    assert world.attempts(made.id) == [(1, "blocked", "http_429")]
    assert world.column("delivery_attempts", "decision", made.id) == "held for 90.0 s; the attempt is not counted"
    assert world.column("reminders_v1", "last_outcome", made.id) == "blocked"
    assert hold_of(world) == (end, "HTTP 429: slow down")
    assert world.sql("SELECT address, deduplicates FROM reminders.destinations") == [("somewhere", None)]


def test_while_it_is_known_nothing_else_is_called_however_many_wait(world, caplog):
    """Ten thousand reminders must not each fetch their own refusal: the others are put off without a call."""
    many = world.committed(reminders.schedule_many, [world.wanted() for _ in range(200)])
    elsewhere = world.schedule(destination="elsewhere")
    provider = ScriptedProvider(PAUSE)
    worker = world.deliver(provider)
    messages = world.published()
    with caplog.at_level(logging.INFO):
        answers = [worker(each.reminder_id, each.delivery_key) for each in messages]
    assert sorted(set(answers)) == ["delivered", "destination_held", "held"]
    assert (answers.count("held"), answers.count("delivered")) == (1, 1)
    assert len(provider.calls) == 2
    assert world.status(elsewhere.id)[0] == "delivered"
    told = [record.getMessage() for record in caplog.records if "destination_held" in record.getMessage()]
    assert len(told) == 199
    assert told[0].startswith("deliver.no_claim reason=destination_held key=")
    assert {world.status(each.id)[0] for each in many} == {"pending"}
    assert world.sql("SELECT sum(attempts), count(lease_token) > 0 FROM reminders.due")[0][0] == 0
    until, _ = hold_of(world)
    moments = [row[0] for row in world.sql("SELECT wake_at FROM reminders.due")]
    assert all(until <= each <= until + timedelta(seconds=HOLD_SPREAD) for each in moments)
    assert len(set(moments)) > 150
    assert world.published(until - timedelta(seconds=1)) == []
    late = until + timedelta(seconds=HOLD_SPREAD)
    again = world.deliver(provider, now=late)
    assert {again(each.reminder_id, each.delivery_key) for each in world.published(late)} == {"delivered"}


def test_claims_that_were_open_report_and_the_longest_pause_stands(world):
    short = Blocked("destination", timedelta(seconds=10), "http_503", "HTTP 503", 503)
    made = [world.schedule() for _ in range(3)]
    world.published()
    first, second, third = (world.claim(each) for each in made)
    now = world.lapse(1)
    world.finalize(first, PAUSE, now=now)
    world.finalize(second, short, now=now)
    until = now + timedelta(seconds=90)
    assert hold_of(world) == (until, "HTTP 429: slow down")
    assert until <= wakes(world, made[1]) <= until + timedelta(seconds=HOLD_SPREAD)
    world.finalize(third, Blocked("destination", timedelta(hours=1), "http_429", "longer", 429), now=now)
    assert hold_of(world) == (now + timedelta(hours=1), "longer")


@pytest.mark.parametrize(("asked", "kept"), [(timedelta(0), 1), (timedelta(days=-9), 1), (timedelta(days=400), 86400)])
def test_a_pause_lasts_a_second_at_least_and_a_day_at_most(world, asked, kept):
    made = world.schedule()
    now = world.lapse(1)
    world.finalize(world.opened(made), Blocked("destination", asked, "slow", "", None), now=now)
    assert hold_of(world) == (now + timedelta(seconds=kept), "slow")


def test_refused_credentials_hold_the_tenants_channel_and_no_other_tenant(world):
    mine = [world.schedule(destination=f"place-{number}") for number in range(3)]
    theirs = world.schedule(tenant_id="tenant-b")
    provider = ScriptedProvider(REFUSED)
    worker = world.deliver(provider)
    for message in world.published():
        worker(message.reminder_id, message.delivery_key)
    assert world.status(theirs.id)[0] == "delivered"
    assert [world.status(each.id)[0] for each in mine] == ["pending"] * 3
    assert len(provider.calls) == 2
    ((tenant, channel, until, why),) = world.sql("SELECT * FROM reminders.channel_holds")
    assert (tenant, channel, why) == ("tenant-a", "log", "our credentials were refused")
    assert world.sql("SELECT count(*) FROM reminders.destinations") == [(0,)]
    assert all(until <= wakes(world, each) <= until + timedelta(seconds=HOLD_SPREAD) for each in mine)
    late = world.schedule(destination="place-9")
    ((message,),) = ([each for each in world.published() if each.reminder_id == late.id],)
    assert worker(message.reminder_id, message.delivery_key) == "channel_held"


def test_all_waiting_for_pauses_is_bounded_from_the_first_attempt_on(world):
    made = world.schedule()
    pause = Blocked("destination", timedelta(hours=20), "http_429", "", 429)
    answers, seconds = [], 0.0
    while world.status(made.id)[0] == "pending":
        claim = world.opened(made, now=world.lapse(seconds))
        answers.append(world.finalize(claim, pause, now=world.lapse(seconds)))
        seconds += 20 * 3600 + HOLD_SPREAD + 1
    assert answers == ["held", "held", "held", "dead"]
    assert world.letters(made.id) == [("destination", "open", "http_429")]
    assert world.column("dead_letters", "attempts", made.id) == 0


def test_what_is_put_off_before_its_first_attempt_has_a_bound_too(world):
    first, second = world.schedule(), world.schedule()
    world.published()
    claim = world.claim(first)
    world.finalize(claim, PAUSE)
    before = world.lapse(0)
    assert world.claims().refusal(second.id, second.delivery_key) == "destination_held"
    bound = world.column("due", "give_up_at", second.id)
    assert timedelta(0) <= bound - before - timedelta(seconds=MAX_WAIT) < timedelta(seconds=20)
    world.sql("UPDATE reminders.destinations SET hold_until = hold_until + interval '1 hour'")
    late = world.lapse(100)
    publish_as_if_free(world, late)
    assert world.claims(late).refusal(second.id, second.delivery_key) == "destination_held"
    assert world.column("due", "give_up_at", second.id) == bound


def test_nothing_sleeps_beyond_its_expiry_or_bound(world):
    first = world.schedule()
    second = world.schedule(expires_at=world.now + timedelta(minutes=10))
    world.published()
    world.finalize(world.claim(first), Blocked("destination", timedelta(hours=2), "http_429", "", 429))
    assert world.claims().refusal(second.id, second.delivery_key) == "destination_held"
    assert wakes(world, second) == world.now + timedelta(minutes=10)
    assert world.column("due", "give_up_at", second.id) == world.now + timedelta(minutes=10)


def test_what_has_expired_ends_although_its_place_is_held(world):
    first = world.schedule()
    second = world.schedule(expires_at=world.now + timedelta(minutes=10))
    world.finalize(world.opened(first), Blocked("destination", timedelta(hours=2), "http_429", "", 429))
    late = world.lapse(700)
    world.published(late)
    assert world.claims(late).refusal(second.id, second.delivery_key) == "expired"


@pytest.mark.parametrize("uncertain", [False, True])
def test_with_a_cancellation_requested_it_ends_cancelled_or_in_review(world, uncertain):
    made = world.schedule()
    seconds = 0.0
    if uncertain:
        world.finalize(world.opened(made), LOST)
        seconds = 60.0
    claim = world.opened(made, now=world.lapse(seconds))
    assert world.committed(reminders.cancel, made.id) == "requested"
    assert world.finalize(claim, PAUSE, now=world.lapse(seconds)) == ("dead" if uncertain else "cancelled")
    assert world.letters(made.id) == ([("unknown", "open", "http_429")] if uncertain else [])
    assert hold_of(world)[1] == "HTTP 429: slow down"
    assert world.column("reminders", "last_outcome", made.id) == "blocked"


def test_a_pause_leaves_what_is_unknown_unknown(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    since = world.column("notification_deliveries", "uncertain_since", made.id)
    late = world.lapse(60)
    world.finalize(world.opened(made, now=late), PAUSE, now=late)
    assert world.column("notification_deliveries", "uncertain_since", made.id) == since
    assert world.column("due", "attempts", made.id) == 1
    later = world.lapse(300)
    world.finalize(world.opened(made, now=later), Rejected("gone", ""), now=later)
    assert world.letters(made.id) == [("unknown", "open", "gone")]


def test_pauses_use_up_none_of_the_attempts(world):
    made = world.schedule()
    seconds = 0.0
    for _ in range(12):
        world.finalize(world.opened(made, now=world.lapse(seconds)), PAUSE, now=world.lapse(seconds))
        seconds += 100
    assert world.column("due", "attempts", made.id) == 0
    claim = world.opened(made, now=world.lapse(seconds))
    assert world.finalize(claim, Retry("busy", ""), now=world.lapse(seconds)) == "parked"
    assert world.column("due", "attempts", made.id) == 1
    assert claim.claim_number == 13


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.usefixtures("impatient")
def test_recorded_alone_it_holds_the_destination_at_once_and_counts_nothing(world, commits):
    made, other = world.schedule(), world.schedule()
    claim = world.opened(made)
    holder = world.connect()
    reminders.cancel(holder, made.id)
    assert world.finalize(claim, PAUSE) == "held"
    assert world.claims().refusal(other.id, other.delivery_key) == "destination_held"
    holder.commit() if commits else holder.rollback()
    assert world.repair() == 1
    assert world.status(made.id) == (("cancelled", "cancelled") if commits else ("pending", "retrying"))
    if not commits:
        assert world.column("due", "attempts", made.id) == 0
        assert wakes(world, made) >= hold_of(world)[0] - timedelta(seconds=CLAIM)
    assert world.attempts(made.id) == [(1, "blocked", "http_429")]


def test_a_success_that_came_late_goes_before_a_hold(world):
    made, other = world.schedule(), world.schedule()
    claim = world.opened(made)
    world.repair()
    world.finalize(world.claim(other), PAUSE)
    world.finalize(claim, Delivered("r"))
    late = world.lapse(CLAIM + 5)
    publish_as_if_free(world, late)
    assert world.claims(late).refusal(made.id, made.delivery_key) == "delivered"


def test_a_row_that_somebody_holds_is_busy_and_not_waited_for(world):
    first, second = world.schedule(), world.schedule()
    world.published()
    world.finalize(world.claim(first), PAUSE)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(second.id),))
    assert world.claims().refusal(second.id, second.delivery_key) == "busy"
    holder.rollback()
    assert world.claims().refusal(second.id, second.delivery_key) == "destination_held"

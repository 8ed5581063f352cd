"""Destinations that are gone or disabled are not called; a hold can be lifted before its end."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import AskedProvider, ScriptedProvider
from reminders.domain.errors import NotFound, Refused
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.ledger.closing_letters import redrive
from reminders.ledger.destination_state import disable, enable, release_channel, release_destination
from reminders.ledger.destinations import find, matching, set_deduplicates
from reminders.ledger.holding import HOLD_SPREAD
from reminders.ledger.review import LetterFilter

GONE = Rejected("http_410", "HTTP 410: moved away", 410, gone=True)
PAUSE = Blocked("destination", timedelta(hours=1), "http_429", "HTTP 429", 429)
LOST = Unknown("timeout", "no answer")
HOME = ("tenant-a", "log", "somewhere")
PLACE = destination_id(*HOME)


def run(world, made, provider, seconds=0.0):
    now = world.lapse(seconds)
    world.published(now)
    return world.deliver(provider, now=now)(made.id, made.delivery_key)


def disabled(world):
    return world.sql("SELECT disabled_at IS NOT NULL, disabled_reason FROM reminders.destinations")


def test_a_destination_that_is_gone_is_disabled_and_not_called_again(world):
    first, second, elsewhere = world.schedule(), world.schedule(), world.schedule(destination="elsewhere")
    provider = ScriptedProvider(GONE)
    assert run(world, first, provider) == "dead"
    assert disabled(world) == [(True, "HTTP 410: moved away")]
    assert run(world, second, provider) == "dead"
    assert run(world, elsewhere, provider) == "delivered"
    assert len(provider.calls) == 2
    assert world.letters(first.id) == [("destination", "open", "http_410")]
    assert world.letters(second.id) == [("destination", "open", "destination_disabled")]
    assert (world.status(second.id), world.attempts(second.id)) == (("dead", None), [])
    found = find(world.database, *HOME)
    assert (found.disabled_reason, found.held_until, found.deduplicates_set) == ("HTTP 410: moved away", None, False)


def test_what_was_unknown_stays_so_when_its_destination_is_gone(world):
    made, parked = world.schedule(), world.schedule()
    run(world, made, ScriptedProvider(LOST))
    run(world, parked, ScriptedProvider(LOST))
    assert run(world, made, ScriptedProvider(GONE), 60) == "dead"
    assert world.letters(made.id) == [("unknown", "open", "http_410")]
    provider = ScriptedProvider()
    assert run(world, parked, provider, 60) == "dead"
    assert world.letters(parked.id) == [("unknown", "open", "destination_disabled")]
    assert world.column("notification_deliveries", "uncertain_since", parked.id) is not None
    assert provider.calls == []


def test_what_waited_for_a_retry_ends_too(world):
    made = world.schedule()
    run(world, made, ScriptedProvider(Retry("busy", "")))
    disable(world.database, HOME, "asked by phone")
    assert run(world, made, ScriptedProvider(), 60) == "dead"
    assert world.status(made.id) == ("dead", "dead")


def test_expired_is_expired_also_where_nothing_may_be_sent(world):
    made = world.schedule(expires_at=world.now + timedelta(minutes=1))
    disable(world.database, HOME, "asked by phone")
    world.published()
    late = world.lapse(120)
    assert world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key) == "expired"


def test_cancelled_during_the_call_that_finds_it_gone(world):
    made = world.schedule()

    def meanwhile():
        assert world.committed(reminders.cancel, made.id) == "requested"
        return GONE

    assert run(world, made, ScriptedProvider(meanwhile)) == "cancelled"
    assert disabled(world) == [(True, "HTTP 410: moved away")]


def test_what_ended_there_is_redriven_after_it_is_enabled(world):
    made = [world.schedule() for _ in range(3)]
    disable(world.database, HOME, "maintenance")
    provider = ScriptedProvider()
    assert [run(world, each, provider) for each in made] == ["dead"] * 3
    wanted = LetterFilter(destination=PLACE, error_class="destination_disabled")
    enable(world.database, HOME, "they are back")
    answer = redrive(world.database, wanted, actor="ada", reason="they are back")
    assert sorted(answer.done) == sorted(each.id for each in made)
    assert [run(world, each, provider) for each in made] == ["delivered"] * 3


def test_redriven_while_it_is_disabled_it_ends_again(world):
    made = world.schedule()
    disable(world.database, HOME, "maintenance")
    run(world, made, ScriptedProvider())
    world.redrive(made)
    assert run(world, made, ScriptedProvider()) == "dead"
    assert [state for _, state, _ in world.letters(made.id)] == ["redriven", "open"]


def test_a_second_word_leaves_the_first_one_on_record(world):
    first = disable(world.database, HOME, "first")
    assert disable(world.database, HOME, "second") == first
    assert first.disabled_reason == "first"
    found = enable(world.database, HOME, "third")
    assert (found.disabled_at, found.disabled_reason, found.enabled_reason) == (None, None, "third")
    with pytest.raises(Refused, match="is not disabled"):
        enable(world.database, HOME, "again")
    with pytest.raises(NotFound):
        enable(world.database, ("tenant-a", "log", "never used"), "why")


def test_what_it_promises_is_the_channels_default_until_an_operator_says_so(world):
    disable(world.database, HOME, "maintenance")
    (unused,) = matching(world.database, tenant=None, channel=None, limit=9)
    assert (unused.deduplicates, unused.deduplicates_set) == (None, False)
    enable(world.database, HOME, "over")
    plain, careful = world.schedule(), world.schedule(deduplicates=False)
    world.published()
    assert [world.claim(each).on_unknown for each in (plain, careful)] == ["repeat", "review"]
    said = set_deduplicates(world.database, *HOME, deduplicates=True)
    assert (said.deduplicates, said.deduplicates_set, said.enabled_reason) == (True, True, "over")


def test_released_early_everything_that_waits_for_it_is_due_at_once(world):
    made = [world.schedule() for _ in range(4)]
    provider = ScriptedProvider(PAUSE)
    assert [run(world, each, provider) for each in made] == ["held"] + ["destination_held"] * 3
    now = world.lapse(60)
    assert world.published(now) == []
    assert release_destination(world.database, PLACE, now) == (4, True)
    assert find(world.database, *HOME).held_until is None
    assert {world.column("due", "give_up_at", each.id) for each in made} == {None}
    assert [run(world, each, provider, 61) for each in made] == ["delivered"] * 4
    assert release_destination(world.database, PLACE, now) == (0, False)


def test_released_is_only_what_the_hold_kept(world):
    """Neither what is due later, nor what waits for its own retry, nor what goes elsewhere."""
    paused, other = world.schedule(), world.schedule()
    retrying, elsewhere = world.schedule(), world.schedule(destination="elsewhere")
    world.published()
    now = world.lapse(1)
    later = world.schedule(due_at=world.now + timedelta(minutes=30))
    claims = [world.claim(each) for each in (paused, retrying, elsewhere)]
    world.finalize(claims[1], Retry("busy", "", after=timedelta(minutes=20)), now=now)
    world.finalize(claims[2], Retry("busy", "", after=timedelta(minutes=20)), now=now)
    world.finalize(claims[0], PAUSE, now=now)
    assert world.claims(now).refusal(other.id, other.delivery_key) == "destination_held"
    assert release_destination(world.database, PLACE, world.lapse(5)) == (2, True)
    due = {message.reminder_id for message in world.published(world.lapse(10))}
    assert due == {paused.id, other.id}
    assert world.column("due", "wake_at", later.id) == world.now + timedelta(minutes=30)


def test_a_release_wakes_what_was_put_off_in_the_moment_of_an_earlier_one(world):
    first, second = world.schedule(), world.schedule()
    world.published()
    world.finalize(world.claim(first), PAUSE)
    world.claims().refusal(second.id, second.delivery_key)
    world.sql("UPDATE reminders.destinations SET hold_until = NULL, hold_reason = NULL")
    assert release_destination(world.database, PLACE) == (2, False)


def test_a_release_waits_for_nobody(world):
    first, second = world.schedule(), world.schedule()
    world.published()
    world.finalize(world.claim(first), PAUSE)
    world.claims().refusal(second.id, second.delivery_key)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(second.id),))
    assert release_destination(world.database, PLACE) == (1, True)
    holder.rollback()
    assert release_destination(world.database, PLACE) == (1, False)


def test_after_a_release_all_waiting_begins_anew(world):
    made = world.schedule()
    long = Blocked("destination", timedelta(hours=20), "http_429", "", 429)
    run(world, made, ScriptedProvider(long))
    day = 86400.0
    assert release_destination(world.database, PLACE, world.lapse(HOLD_SPREAD)) == (1, True)
    claim = world.opened(made, now=world.lapse(4 * day))
    assert claim.waited == 0
    assert world.finalize(claim, long, now=world.lapse(4 * day)) == "held"


def test_a_channel_is_released_as_a_whole(world):
    made = [world.schedule(destination=f"place-{number}") for number in range(3)]
    provider = ScriptedProvider(Blocked("provider", timedelta(hours=1), "credentials", "refused", None))
    for each in made:
        run(world, each, provider)
    assert len(provider.calls) == 1
    assert release_channel(world.database, "tenant-b", "log") == (0, False)
    assert release_channel(world.database, "tenant-a", "log") == (3, True)
    assert world.sql("SELECT count(*) FROM reminders.channel_holds") == [(0,)]
    assert [run(world, each, provider, 1) for each in made] == ["delivered"] * 3


def test_a_conflict_while_it_is_uncertain_is_tried_again_and_otherwise_a_refusal(world):
    conflict = Rejected("http_409", "HTTP 409", 409, may_be_our_own=True)
    certain, doubtful = world.schedule(), world.schedule()
    assert run(world, certain, ScriptedProvider(conflict)) == "dead"
    assert world.letters(certain.id) == [("destination", "open", "http_409")]
    provider = ScriptedProvider(LOST, conflict, Delivered())
    assert [run(world, doubtful, provider, seconds) for seconds in (0, 60, 600)] == ["parked", "parked", "delivered"]
    assert world.attempts(doubtful.id)[1] == (2, "retry", "http_409")


def test_where_it_may_not_be_called_nothing_is_looked_up_either(world):
    world.look_ups = ("log",)
    made = world.schedule(deduplicates=False)
    provider = AskedProvider(LOST)
    run(world, made, provider)
    disable(world.database, HOME, "maintenance")
    assert run(world, made, provider, 60) == "dead"
    assert (world.letters(made.id), provider.asked) == ([("unknown", "open", "destination_disabled")], [])

"""What has expired is sent again only by a person's word, which lifts the expiry and is on record."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.ledger.operators import WORD, redriven, why
from integration.ledger.world import NOW, ScriptedProvider
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.ledger.closing_letters import redrive
from reminders.ledger.review import LetterFilter, letters, read_filter

EXPIRES = NOW + timedelta(days=1)
LATER = EXPIRES + timedelta(hours=1)


def dead(world, **wanted):
    made = world.schedule(**wanted)
    world.finalize(world.opened(made), Rejected("gone", "refused"))
    return made


def expired(world, *, attempted):
    """Ended by its expiry, before or after an attempt."""
    made = world.schedule(expires_at=EXPIRES)
    if attempted:
        world.finalize(world.opened(made), Retry("busy", ""))
    world.published(LATER)
    assert world.deliver(ScriptedProvider(), now=LATER)(made.id, made.delivery_key) == "expired"
    return made


def delivers(world, made, at):
    """Sent exactly once, at a time when its expiry has long passed."""
    provider = ScriptedProvider(Retry("busy", ""))
    assert [message.reminder_id for message in world.published(at)] == [made.id]
    assert world.deliver(provider, now=at)(made.id, made.delivery_key) == "parked"
    again = at + timedelta(minutes=1)
    world.published(again)
    assert world.deliver(provider, now=again)(made.id, made.delivery_key) == "delivered"
    assert {key for key, *_ in provider.calls} == {made.delivery_key}


def test_a_dead_one_past_its_expiry_is_refused_until_that_is_ignored(world):
    made = dead(world, expires_at=EXPIRES)
    assert why(redriven(world, made, now=LATER)) == ["expired"]
    assert redriven(world, made, now=LATER, ignore_expiry=True).done == [made.id]
    assert world.column("reminders", "expires_at", made.id) is None
    (letter,) = letters(world.database, LetterFilter(), state="redriven")
    assert (letter.kind, letter.lifted_expiry, letter.actor) == ("destination", EXPIRES, "ada")
    delivers(world, made, LATER)


def test_before_its_expiry_it_needs_no_such_word_and_keeps_it(world):
    made = dead(world, expires_at=EXPIRES)
    assert redriven(world, made, now=world.now).done == [made.id]
    assert world.column("reminders", "expires_at", made.id) == EXPIRES
    (letter,) = letters(world.database, LetterFilter(), state="redriven")
    assert letter.lifted_expiry is None


@pytest.mark.parametrize("attempted", [False, True])
def test_a_reminder_that_expired_without_a_letter(world, attempted):
    made = expired(world, attempted=attempted)
    assert why(redriven(world, made, now=LATER)) == ["expired"]
    assert redriven(world, made, now=LATER, ignore_expiry=True).done == [made.id]
    (letter,) = letters(world.database, LetterFilter(), state=None)
    assert (letter.kind, letter.state, letter.attempts) == ("expired", "redriven", int(attempted))
    assert (letter.lifted_expiry, letter.actor, letter.action_reason) == (EXPIRES, "ada", "fixed")
    delivers(world, made, LATER)


def test_by_filter_the_expired_are_taken_only_when_expiry_is_ignored(world):
    old, fresh = expired(world, attempted=False), dead(world)
    answer = redrive(world.database, LetterFilter(tenant="tenant-a"), **WORD, now=LATER)
    assert (answer.done, answer.stay) == ([fresh.id], 0)
    answer = redrive(world.database, LetterFilter(tenant="tenant-a"), **WORD, now=LATER, ignore_expiry=True)
    assert (answer.done, answer.stay) == ([old.id], 0)


@pytest.mark.parametrize(("kind", "chosen"), [("expired", 0), ("destination", 1)])
def test_the_kind_tells_the_expired_from_dead_letters(world, kind, chosen):
    made = [expired(world, attempted=False), dead(world, expires_at=EXPIRES)]
    answer = redrive(world.database, read_filter(kind=kind), **WORD, now=LATER, ignore_expiry=True)
    assert answer.done == [made[chosen].id]


def test_it_can_expire_again_before_its_turn_and_be_sent_all_the_same(world):
    made = dead(world, expires_at=EXPIRES)
    redriven(world, made, now=world.now)
    world.published(LATER)
    assert world.deliver(ScriptedProvider(), now=LATER)(made.id, made.delivery_key) == "expired"
    assert why(redriven(world, made, now=LATER)) == ["expired"]
    assert redriven(world, made, now=LATER, ignore_expiry=True).done == [made.id]
    assert [(kind, state) for kind, state, _ in world.letters(made.id)] == [
        ("destination", "redriven"),
        ("expired", "redriven"),
    ]
    world.published(LATER)
    world.finalize(world.claim(made, now=LATER), Delivered("r"), now=LATER)
    assert world.status(made.id) == ("delivered", "delivered")

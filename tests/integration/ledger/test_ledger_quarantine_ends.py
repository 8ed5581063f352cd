"""What a quarantine makes of what had ended in a restored ledger; its epochs and its pages."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger import operators
from integration.ledger.restoring import (
    begun,
    delivered,
    ended,
    key,
    quarantined,
    stepped,
    told,
    tried,
    uncertain_since,
    version,
    violations,
)
from integration.ledger.world import CLAIM, AskedProvider
from reminders.domain.errors import Refused
from reminders.domain.identity import delivery_key
from reminders.domain.outcomes import Delivered, Rejected, Unknown
from reminders.ledger.quarantining import count, quarantines

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NO, LOST = Rejected("no", ""), Unknown("reset", "")


@pytest.fixture(autouse=True)
def clean(world):
    yield
    assert violations(world) == []


def test_an_open_letter_may_have_been_redriven(world):
    made = tried(world, NO)
    found = quarantined(world)
    assert told(found) == {"letter": 1}
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "no")]
    assert "before that: " in world.column("dead_letters", "reason", made.id)
    assert world.redrive(made) == []
    assert world.redrive(made, checked=True) == [made.id]
    assert [call[0] for call in delivered(world, made)] == [made.delivery_key]


def test_a_letter_without_any_attempt_may_have_been_redriven_too(world):
    made = world.schedule()
    world.sql("UPDATE reminders.due SET give_up_at = wake_at")
    world.scanning().once()
    assert world.status(made.id) == ("dead", None)
    assert told(quarantined(world)) == {"letter": 1}
    assert world.status(made.id) == ("dead", "unknown")
    with pytest.raises(Refused, match="may already have been sent"):
        world.committed(reminders.reschedule, made.id, due_at=world.now + DAY)


def test_what_was_resolved_as_not_sent_may_have_been_redriven(world):
    made = tried(world, LOST, deduplicates=False)
    operators.not_sent(world, made)
    assert told(quarantined(world)) == {"letter": 1}
    assert world.redrive(made) == []
    assert world.redrive(made, checked=True) == [made.id]


def test_letters_stay_on_the_word_that_none_was_redriven(world):
    made = tried(world, NO)
    assert told(quarantined(world, letters=False)) == {"ended": 1}
    assert world.letters(made.id) == [("destination", "open", "no")]
    assert world.redrive(made) == [made.id]


def test_what_had_ended_keeps_its_end_and_its_next_key_is_of_the_new_epoch(world):
    made = world.schedule(due_at=world.now + HOUR)
    world.committed(reminders.cancel, made.id)
    sent = tried(world, Delivered("r"))
    found = quarantined(world)
    assert told(found) == {"ended": 1}
    assert (version(world, sent), version(world, made), key(world, made)) == (1, found.base, made.delivery_key)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now + DAY)
    identity = bytes(world.column("reminders", "identity_key", made.id))
    # The lost part of the ledger may have rescheduled it too, and have sent what was its version 2.
    assert moved.delivery_key == delivery_key(identity, found.base + 1)
    assert moved.delivery_key != delivery_key(identity, 2)


def test_a_second_restore_begins_another_epoch(world):
    made = world.schedule()
    first = quarantined(world)
    second = quarantined(world, first.cutoff)
    assert second.base > first.base
    assert (version(world, made), key(world, made)) == (second.base, made.delivery_key)
    assert world.column("reminders", "key_version", made.id) == 1
    # The call may have been made at any time since the first restore.
    assert uncertain_since(world, made) == made.due_at


def test_what_is_scheduled_meanwhile_is_left_alone(world):
    found = begun(world)
    made = world.schedule(due_at=world.now + HOUR)
    while stepped(world, found):
        pass
    assert told(ended(world, found)) == {}
    assert (version(world, made), key(world, made)) == (1, made.delivery_key)


def test_page_by_page_each_is_judged_once(world):
    made = [world.schedule(deduplicates=each % 2 == 0) for each in range(7)]
    found = begun(world)
    assert stepped(world, found, size=3)
    assert quarantines(world.database)[0].reached is not None
    # The next run takes up where a run was cut off.
    while stepped(world, quarantines(world.database)[0], size=3):
        pass
    assert told(ended(world, found)) == {"repeat": 4, "review": 3}
    assert [world.status(each.id)[0] for each in made] == ["pending", "dead"] * 3 + ["pending"]
    assert not stepped(world, found)


def test_a_dry_run_counts_the_same_and_changes_nothing(world):
    world.schedule()
    world.schedule(deduplicates=False)
    world.schedule(due_at=world.now + HOUR)
    tried(world, NO)
    before = world.sql("SELECT * FROM reminders.reminders ORDER BY id")
    found = count(world.database, world.now - HOUR, window=7 * 86400.0, letters=True, size=2)
    assert world.sql("SELECT * FROM reminders.reminders ORDER BY id") == before
    assert found.counts == quarantined(world, size=2).counts


def test_a_worker_that_is_started_meanwhile_sends_nothing(world):
    made = world.schedule()
    begun(world)
    assert delivered(world, made) == []
    assert world.status(made.id)[0] == "held"
    world.sql("DELETE FROM reminders.quarantines")


def test_a_message_of_before_claims_nothing_that_is_for_review(world):
    made = world.schedule(deduplicates=False)
    (message,) = world.published()
    quarantined(world)
    provider = AskedProvider()
    assert world.deliver(provider)(message.reminder_id, message.delivery_key) == "dead"
    assert (provider.calls, provider.asked) == ([], [])
    assert world.claim(made, now=world.lapse(CLAIM)) is None

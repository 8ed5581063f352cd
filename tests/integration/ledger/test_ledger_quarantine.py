"""What a quarantine makes of each kind of row of a restored ledger."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger import operators, pauses
from integration.ledger.restoring import (
    BODY,
    delivered,
    key,
    quarantined,
    told,
    tried,
    uncertain_since,
    version,
    violations,
)
from integration.ledger.tenants import moded
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import Refused
from reminders.domain.identity import delivery_key
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.domain.pauses import PauseScope
from reminders.ledger.pausing import pause
from reminders.ledger.quarantining import begin, clock

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AGAIN, NO, LOST = Retry("busy", ""), Rejected("no", ""), Unknown("reset", "")


@pytest.fixture(autouse=True)
def clean(world):
    yield
    assert violations(world) == []


def test_what_is_due_and_deduplicated_is_repeated_under_the_same_key(world):
    made = world.schedule()
    found = quarantined(world)
    assert told(found) == {"repeat": 1}
    assert world.status(made.id) == ("pending", "retrying")
    # It cannot have been called before it was due.
    assert uncertain_since(world, made) == made.due_at
    assert (version(world, made), key(world, made)) == (found.base, made.delivery_key)
    assert [call[0] for call in delivered(world, made)] == [made.delivery_key]
    assert world.status(made.id) == ("delivered", "delivered")


def test_what_is_due_and_not_deduplicated_is_for_review(world):
    made = world.schedule(deduplicates=False)
    found = quarantined(world)
    assert told(found) == {"review": 1}
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "restored")]
    assert uncertain_since(world, made) == made.due_at
    assert delivered(world, made) == []
    assert world.redrive(made) == []
    assert world.committed(reminders.cancel, made.id) == "maybe_sent"
    with pytest.raises(Refused, match="may already have been sent"):
        world.committed(reminders.reschedule, made.id, due_at=world.now + DAY)


def test_a_person_who_has_checked_sends_it_under_the_key_that_it_had(world):
    made = world.schedule(deduplicates=False)
    quarantined(world)
    assert world.redrive(made, checked=True) == [made.id]
    assert [call[0] for call in delivered(world, made)] == [made.delivery_key]


def test_what_a_person_finds_delivered_is(world):
    made = world.schedule(deduplicates=False)
    quarantined(world)
    operators.delivered(world, made)
    assert world.status(made.id) == ("delivered", "delivered")


def test_beyond_the_window_a_destination_that_deduplicates_is_for_review_too(world):
    made = world.schedule(due_at=world.now - 2 * HOUR)
    young = world.schedule()
    # Both could be sent from an hour ago on, the younger one from when it was due.
    found = quarantined(world, world.now - HOUR, window=1800.0)
    assert told(found) == {"review": 1, "repeat": 1}
    assert (world.status(made.id)[0], world.status(young.id)[0]) == ("dead", "pending")


def test_the_repeat_itself_stays_within_the_window(world):
    made = world.schedule()
    quarantined(world)
    assert delivered(world, made, 8 * 86400.0) == []
    assert world.status(made.id) == ("dead", "unknown")


def test_what_is_due_later_has_a_new_key_and_the_old_message_is_nobodys(world):
    made = world.schedule(due_at=world.now + HOUR)
    found = quarantined(world)
    assert told(found) == {"ahead": 1}
    identity = bytes(world.column("reminders", "identity_key", made.id))
    assert key(world, made) == delivery_key(identity, found.base) != made.delivery_key
    assert world.column("due", "delivery_key", made.id) == key(world, made)
    assert world.status(made.id) == ("pending", None)
    world.published(world.lapse(3700))
    assert world.claims(world.lapse(3700)).refusal(made.id, made.delivery_key) == "superseded"
    assert [call[0] for call in delivered(world, made, 4000)] == [key(world, made)]


@pytest.mark.parametrize("deduplicates", [True, False])
def test_what_was_leased_or_published_may_have_been_sent(world, deduplicates):
    made = world.schedule(deduplicates=deduplicates)
    world.published()
    assert world.status(made.id)[0] == "published"
    assert told(quarantined(world)) == ({"repeat": 1} if deduplicates else {"review": 1})


def test_what_was_held_stays_so_or_is_for_review(world):
    repeated, reviewed = world.schedule(), world.schedule(deduplicates=False)
    by = pauses.paused(world)
    world.published()
    assert told(quarantined(world)) == {"repeat": 1, "review": 1}
    assert world.status(repeated.id) == ("held", "retrying")
    assert world.status(reviewed.id) == ("dead", "unknown")
    pauses.resumed(world, by)
    pauses.release(world)
    assert [call[0] for call in delivered(world, repeated, 5)] == [repeated.delivery_key]


@pytest.mark.parametrize(("deduplicates", "ends"), [(True, ("pending", "retrying")), (False, ("dead", "unknown"))])
def test_an_open_claim_is_judged_at_its_end(world, deduplicates, ends):
    made = world.schedule(deduplicates=deduplicates)
    world.opened(made)
    assert told(quarantined(world)) == {"open_claim": 1}
    assert world.status(made.id) == ("sending", "sending")
    world.repair()
    assert world.status(made.id) == ends


def test_an_open_claim_is_not_looked_up_since_another_may_have_followed_it(world):
    world.look_ups = ("log",)
    made = world.schedule(deduplicates=False)
    world.opened(made)
    assert world.column("notification_deliveries", "on_unknown", made.id) == "look_up"
    quarantined(world)
    world.repair()
    assert world.status(made.id) == ("dead", "unknown")


def test_what_was_recorded_alone_is_uncertain_when_it_is_carried_over(world, impatient):
    made = world.schedule()
    claim = world.opened(made)
    holder = world.connect()
    reminders.cancel(holder, made.id)
    world.finalize(claim, AGAIN, body_hash=BODY)
    holder.rollback()
    assert world.status(made.id) == ("sending", "retrying")
    quarantined(world)
    world.repair()
    assert world.status(made.id) == ("pending", "retrying")
    assert uncertain_since(world, made) == made.due_at


def test_a_parked_retry_sleeps_on_if_its_turn_is_still_to_come(world):
    made = tried(world, Retry("busy", "", after=HOUR), deduplicates=False)
    assert world.column("due", "wake_at", made.id) > world.now
    found = quarantined(world)
    assert told(found) == {"asleep": 1}
    assert (world.status(made.id), uncertain_since(world, made)) == (("pending", "retrying"), None)
    # It has been called under its key, and goes on under it.
    assert (version(world, made), key(world, made)) == (found.base, made.delivery_key)


def test_a_retry_whose_turn_has_come_may_have_been_sent(world):
    made = tried(world, AGAIN, deduplicates=False)
    world.sql("UPDATE reminders.due SET wake_at = clock_timestamp()")
    assert told(quarantined(world)) == {"review": 1}
    assert world.letters(made.id) == [("unknown", "open", "restored")]
    assert world.column("dead_letters", "attempts", made.id) == 1


def test_what_a_hold_keeps_waiting_may_have_been_let_go(world):
    made = world.schedule(deduplicates=False)
    world.sql("UPDATE reminders.due SET wake_at = clock_timestamp() + interval '1 hour'")
    assert told(quarantined(world)) == {"review": 1}
    assert world.status(made.id) == ("dead", "unknown")


def test_the_end_of_quiet_hours_that_is_still_to_come_was_not_waited_for(world):
    made = world.schedule(deduplicates=False)
    world.sql(
        "UPDATE reminders.due SET wake_at = clock_timestamp() + interval '1 hour', quiet_until = clock_timestamp() + interval '1 hour'"
    )
    world.sql("UPDATE reminders.due SET quiet_until = wake_at")
    assert told(quarantined(world)) == {"asleep": 1}
    assert world.status(made.id) == ("pending", None)


def test_earlier_uncertainty_keeps_its_time(world):
    made = tried(world, LOST)
    before = uncertain_since(world, made)
    world.sql("UPDATE reminders.due SET wake_at = clock_timestamp()")
    world.sql("UPDATE reminders.notification_deliveries SET uncertain_since = uncertain_since - interval '3 days'")
    assert told(quarantined(world)) == {"repeat": 1}
    assert uncertain_since(world, made) == before - 3 * DAY


def test_what_cannot_have_been_sent_ends_as_ever(world):
    suppressed = world.schedule(user_id="user-2", deduplicates=False)
    world.committed(reminders.suppress, tenant_id="tenant-a", user_id="user-2", reason="unsubscribed")
    expired = world.schedule(due_at=world.now - 3 * HOUR, expires_at=world.now - 2 * HOUR, deduplicates=False)
    assert told(quarantined(world, world.now - HOUR)) == {"unsent": 2}
    assert (world.status(suppressed.id), world.status(expired.id)) == (("pending", None), ("pending", None))
    provider = ScriptedProvider()
    for message in world.published():
        world.deliver(provider)(message.reminder_id, message.delivery_key)
    assert provider.calls == []
    assert (world.status(suppressed.id)[0], world.status(expired.id)[0]) == ("suppressed", "expired")


def test_what_expired_after_the_backup_is_for_review(world):
    made = world.schedule(due_at=world.now - HOUR, expires_at=world.now - timedelta(minutes=1), deduplicates=False)
    assert told(quarantined(world, world.now - 2 * HOUR)) == {"review": 1}
    assert world.status(made.id) == ("dead", "unknown")


def test_what_is_in_shadow_was_not_sent(world):
    moded(world, "shadow")
    world.schedule(deduplicates=False)
    assert told(quarantined(world)) == {"unsent": 1}


def test_a_success_that_came_late_is_one(world):
    made = world.schedule()
    claim = world.opened(made)
    world.repair()
    world.finalize(claim, Delivered("r"), body_hash=BODY)
    world.sql("UPDATE reminders.due SET wake_at = clock_timestamp()")
    assert told(quarantined(world)) == {"unsent": 1}
    delivered(world, made)
    assert world.status(made.id) == ("delivered", "delivered")


def test_of_two_that_begin_at_once_one_is_told_to_say_it_again(world):
    paused = pause(world.database, PauseScope(), actor="quarantine", reason="r").pause
    given = {
        "since": clock(world.database),
        "pause_id": paused.id,
        "letters": True,
        "said": {"actor": "a", "reason": "r"},
    }
    begin(world.database, **given)
    with pytest.raises(Refused, match="has begun a quarantine just now"):
        begin(world.database, **given)

"""What the model test (tests/model) found, or what came to light while it was built, each in its smallest form.

The machine itself found the gateway's error before cancel, before reschedule and before a place ceased to deduplicate;
both cases of the deduplication window were found by reading what it must check.
"""

from __future__ import annotations

import pytest

import reminders
from integration.ledger.world import NOW
from reminders.domain.errors import Refused
from reminders.domain.outcomes import Unknown
from reminders.ledger.destinations import set_deduplicates
from reminders.providers.webhook_outcomes import outcome_of

DAY = 86400.0
LOST = Unknown("timeout", "no answer", timed_out=True)
GATEWAY = outcome_of(502, {}, b"no answer from behind", now=NOW)


@pytest.mark.parametrize("held", [False, True])
def test_the_deduplication_window_is_counted_from_the_call_however_late_its_outcome_is_known(world, impatient, held):
    """A worker that was frozen for days before it reported, with no scan to repair its claim, made its call days ago."""
    made = world.schedule()
    claim = world.opened(made)
    caller = world.connect()
    if held:
        with caller.cursor() as cursor:
            cursor.execute("SELECT FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
    assert world.finalize(claim, LOST, now=world.lapse(4 * DAY)) == "parked"
    caller.rollback()

    assert world.column("notification_deliveries", "uncertain_since", made.id) == claim.claimed_at
    late = world.lapse(7.5 * DAY)
    world.published(late)
    world.published(late)
    assert world.claim(made, now=late) is None
    assert world.claims(late).refusal(made.id, made.delivery_key) == "dead"
    assert world.letters(made.id) == [("unknown", "open", "not_repeatable")]


def parked_behind_a_gateway(world):
    made = world.schedule()
    assert world.finalize(world.opened(made), GATEWAY) == "parked"
    return made


def test_what_a_gateway_may_have_applied_is_not_called_cancelled(world):
    made = parked_behind_a_gateway(world)

    assert world.committed(reminders.cancel, made.id) == "maybe_sent"


def test_what_a_gateway_may_have_applied_is_not_sent_again_under_a_new_key(world):
    made = parked_behind_a_gateway(world)

    with pytest.raises(Refused):
        world.committed(reminders.reschedule, made.id, due_at=world.now)


def test_what_a_gateway_may_have_applied_is_not_repeated_once_its_destination_is_known_not_to_deduplicate(world):
    made = parked_behind_a_gateway(world)
    set_deduplicates(world.database, "tenant-a", "log", "somewhere", deduplicates=False)
    soon = world.lapse(10)
    world.published(soon)

    assert world.claim(made, now=soon) is None


def test_what_a_gateway_may_have_applied_is_not_repeated_after_the_deduplication_window(world):
    made = parked_behind_a_gateway(world)
    late = world.lapse(7.5 * DAY)
    world.published(late)

    assert world.claim(made, now=late) is None

"""What is left of an address when the reminders that had it are purged, and how it is erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.ledger.test_ledger_erasure import ADDRESS, NO, dead, erased, hers, left
from integration.ledger.world import PATIENCE, ScriptedProvider
from reminders.domain.outcomes import Rejected, Retry
from reminders.ledger.destinations import set_deduplicates
from reminders.ledger.pausing import pause
from reminders.ledger.pausing import read_scope as pause_scope
from reminders.operate.other_retention import purge_others
from reminders.operate.retention import purge


def purged(world, days=100):
    """Everything is `days` days old, and the nightly purge has come twice."""
    later = datetime.now(UTC) + timedelta(days=days)
    for _ in range(2):
        purge(world.database, 90 * 86400.0, now=later, patience=PATIENCE)
        purge_others(world.database, reminders=90 * 86400.0, evidence=1096 * 86400.0, now=later)


def closed(world):
    world.sql(
        "UPDATE reminders.dead_letters SET state = 'discarded', closed_at = now(), actor = 'a', host = 'h', action_reason = 'r'"
    )


@pytest.mark.parametrize(
    "outcome", [NO, Rejected("http_410", f"{ADDRESS} moved", 410, gone=True), Retry("http_503", f"{ADDRESS} later")]
)
def test_the_purge_of_the_last_reminder_takes_the_address_along(world, outcome):
    made = world.schedule(**hers())
    world.published()
    world.deliver(ScriptedProvider(outcome))(made.id, made.delivery_key)
    world.committed(reminders.cancel, made.id)
    closed(world)
    assert left(world, ADDRESS) != []
    purged(world)
    assert left(world, ADDRESS) == []
    assert erased(world).complete


def test_what_outlasts_the_purge_is_erased_by_its_address(world):
    dead(world)
    dead(world, user_id="bea")
    set_deduplicates(world.database, "tenant-a", "log", ADDRESS, deduplicates=True)
    pause(world.database, pause_scope(tenant="tenant-a", kind="k"), actor="op", reason=f"bounces at {ADDRESS}")
    closed(world)
    purged(world)
    kept = "SELECT count(*) FROM reminders.destinations"
    assert world.sql("SELECT count(*) FROM reminders.reminders") == [(0,)]
    assert erased(world).complete
    assert world.sql(kept) == [(1,)]
    other = world.schedule(user_id="bea", destination=ADDRESS)
    assert erased(world, addresses=[ADDRESS]).complete
    assert world.sql(kept) == [(1,)]
    assert world.sql("SELECT reason FROM reminders.pauses") == [("erased",)]
    world.committed(reminders.cancel, other.id)
    world.sql("UPDATE reminders.reminders SET destination = 'else', destination_id = gen_random_uuid()")
    assert erased(world, addresses=[ADDRESS], channel="email").complete
    assert world.sql(kept) == [(1,)]
    assert erased(world, addresses=[ADDRESS.upper()]).touched["destinations"] == 1
    assert left(world, ADDRESS) == []

"""Whatever value one tenant has in the ledger, also one that no command stores, the scan and the purge of all others go on."""

from __future__ import annotations

from uuid import UUID

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.test_ledger_rates import burst
from integration.ledger.world import PATIENCE, World
from reminders.domain.pauses import PauseScope
from reminders.domain.turns import Refused
from reminders.ledger.putting_off import PostgresTurns
from reminders.ledger.rates import KeptRates, set_rate
from reminders.ledger.retention_policies import set_policy
from reminders.operate.other_retention import purge_others
from reminders.operate.retention import purge

WORD = {"actor": "ada", "reason": "stored by hand"}
RATES = ["1e-300", "1e-13", "NaN", "Infinity", "1e300"]
INSTANTS = [None, "infinity", "-infinity", "200000-01-01Z", "4000-01-01 BC"]


def capped(world: World, per_second: str, next_at: str | None = None) -> str:
    made = set_rate(world.database, PauseScope(tenant_id="capped"), per_second=1.0, **WORD)
    world.sql("UPDATE reminders.rates SET per_second = %s, next_at = %s RETURNING 1", per_second, next_at)
    return str(made.id)


@pytest.mark.parametrize("next_at", INSTANTS)
@pytest.mark.parametrize("per_second", RATES)
def test_a_cap_of_any_rate_and_any_next_turn_stops_the_scan_of_nobody_else(world, per_second, next_at):
    cap = capped(world, per_second, next_at)
    burst(world, "capped", 5)
    free = {each.id for each in burst(world, "free", 5)}
    assert free <= set(world.called(world.lapse(0)))
    world.sql("UPDATE reminders.rate_tails SET next_at = 'infinity', served_at = '-infinity' RETURNING 1")
    fresh = world.schedule(tenant_id="free")
    assert fresh.id in world.called(world.lapse(2.0))
    # Its worker reckons with it as well.
    (known,) = KeptRates(world.database).of([UUID(cap)])
    assert 1e-7 <= known.per_second <= 100_000
    made = world.schedule(tenant_id="capped")
    world.sql(
        "UPDATE reminders.due SET status = 'leased', lease_token = gen_random_uuid(), wake_at = now() WHERE id = %s RETURNING 1",
        str(made.id),
    )
    turns = PostgresTurns(world.database)
    assert turns.wait_for_turn(made.id, made.delivery_key, Refused(known.id, 1.0, 1.0), [known.id]) == "rate_limited"


@pytest.mark.parametrize("next_at", INSTANTS)
@pytest.mark.parametrize("rate", RATES)
def test_a_resume_at_any_rate_stops_the_release_of_nobody_else(world, rate, next_at):
    made, free = world.schedule(tenant_id="slow"), world.schedule(tenant_id="free")
    slow, other = pauses.paused(world, tenant_id="slow"), pauses.paused(world, tenant_id="free")
    world.published()
    pauses.resumed(world, slow, rate=1.0)
    pauses.resumed(world, other)
    world.sql("UPDATE reminders.pauses SET rate = %s, next_at = %s WHERE id = %s RETURNING 1", rate, next_at, str(slow))
    assert free.id in world.called(world.lapse(0))
    fresh = world.schedule(tenant_id="free")
    assert fresh.id in world.called(world.lapse(2.0))
    assert made


@pytest.mark.parametrize("keep", ["NaN", "Infinity", "1e300"])
def test_a_keep_of_any_length_stops_the_purge_of_nobody_else_and_keeps_what_it_is_about(world, keep):
    kept, gone = world.schedule(tenant_id="kept"), world.schedule(tenant_id="gone")
    for made in (kept, gone):
        world.committed(reminders.cancel, made.id)
    for about in ("reminders", "evidence"):
        set_policy(world.database, "kept", about, 86400.0, **WORD)
    world.sql("UPDATE reminders.retention_policies SET keep = %s RETURNING 1", keep)
    for days in (3, 5, 7, 9):
        purge(world.database, 86400.0, now=world.lapse(days * 86400.0), patience=PATIENCE)
    assert purge_others(world.database, reminders=86400.0, evidence=86400.0) is not None
    assert world.sql("SELECT id FROM reminders.reminders") == [(kept.id,)]
    assert gone

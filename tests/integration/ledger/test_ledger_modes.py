"""Tenants that are off, in shadow and live, one by one and in cohorts; and how a new one starts."""

from __future__ import annotations

import psycopg2
import pytest

from integration.ledger import pauses
from integration.ledger.tenants import WORD, moded
from integration.ledger.world import ScriptedProvider, until
from reminders.domain.errors import InvalidInput, NotFound, Refused, ServiceUnavailable
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Retry
from reminders.ledger.claiming import CLAIM
from reminders.ledger.cohorts import add, members, remove
from reminders.ledger.database import MARK
from reminders.ledger.pausing import pauses as listed
from reminders.ledger.pausing import resume
from reminders.ledger.releasing import AHEAD
from reminders.ledger.tenant_moves import Wanted, set_mode
from reminders.ledger.tenant_registry import Dispatcher
from reminders.ledger.tenant_standing import counted, standing


def stands(world, tenant="tenant-a"):
    found = standing(world.database, tenant=tenant, limit=1)
    return found[0] if found else None


def test_off_holds_what_comes_due_with_its_reason_and_scheduling_still_works(world):
    moded(world, "off")
    made, others = world.schedule(), world.schedule(tenant_id="tenant-b")
    assert [message.reminder_id for message in world.published()] == [others.id]
    assert world.status(made.id) == ("held", None)
    assert world.column("reminders_v1", "hold_reason", made.id) == "rehearsal"
    (by,) = listed(world.database)
    assert (by.scope.tenant_id, by.by_mode, by.held, by.actor) == ("tenant-a", True, 1, "ada")


def test_a_message_that_is_on_its_way_when_its_tenant_is_turned_off_is_held(world):
    made = world.schedule()
    world.published()
    moded(world, "off")
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "paused"
    assert (provider.calls, world.status(made.id)[0]) == ([], "held")


def test_live_again_lets_go_what_was_held_at_the_rate(world):
    made = [world.schedule() for _ in range(3)]
    moded(world, "off")
    world.published()
    moved = moded(world, "live", rate=1 / 60)
    assert moved.changed == {"tenant-a": "off"}
    pauses.release(world)
    seen = [world.status(each.id)[0] for each in made]
    assert sorted(seen) == ["held", "held", "pending"]
    moded(world, "live", rate=1000.0)
    pauses.release(world, 61)
    assert [world.status(each.id)[0] for each in made] == ["pending"] * 3


@pytest.mark.parametrize("rate", [None, 1000.0], ids=["at once", "faster"])
def test_off_again_and_live_again_what_the_first_time_still_holds_goes_at_the_rate_said_last(world, rate):
    made = [world.schedule() for _ in range(3)]
    moded(world, "off")
    world.published()
    moded(world, "live", rate=1 / 3600)
    pauses.release(world)
    moded(world, "off")
    moded(world, "live", rate=rate)
    pauses.release(world, AHEAD + 1)
    pauses.release(world, AHEAD + 2)
    assert [world.status(each.id)[0] for each in made] == ["pending"] * 3


def test_what_is_held_while_off_does_not_wait_behind_what_a_resume_lets_go_at_its_rate(world):
    made = [world.schedule() for _ in range(30)]
    by = pauses.paused(world, tenant_id="tenant-a")
    world.published()
    pauses.resumed(world, by, rate=1 / 3600)
    pauses.release(world)
    moded(world, "off")
    late = world.schedule()
    world.published(world.lapse(1))
    moded(world, "live")
    pauses.release(world, 2)
    assert world.status(late.id)[0] == "pending"
    # The one that had not taken its turn when the tenant was turned off waits for another.
    assert {world.status(each.id)[0] for each in made} == {"held"}


def test_what_is_held_while_off_is_shadowed_once_it_is_in_shadow(world):
    made = world.schedule()
    moded(world, "off")
    world.published()
    moded(world, "shadow")
    pauses.release(world)
    world.published()
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "shadowed"
    assert provider.calls == []


def test_nobody_resumes_what_is_off_but_by_its_mode(world):
    moded(world, "off")
    (by,) = listed(world.database)
    with pytest.raises(Refused, match="tenant tenant-a is off; `reminders tenant set tenant-a --mode live`"):
        resume(world.database, [by.id], actor="bo")
    over = pauses.paused(world, tenant_id="tenant-a")
    assert over != by.id
    resume(world.database, [over], actor="bo")
    assert [each.id for each in listed(world.database)] == [by.id]


def test_a_claim_that_began_before_commits_before_the_command_returns_and_is_reported(world):
    made = world.schedule()
    world.published()
    bound = CLAIM.in_schema("reminders")
    arguments = bound.arguments({
        "ids": [str(made.id)], "keys": [made.delivery_key], "seconds": [30.0], "tokens": [str(uuid7())], "worker": "w",
        "formats": "{}", "templated": [], "look_ups": [], "window": 1000.0, "dispatcher": "main", "new_tenants": "live",
    })  # fmt: skip
    slow = world.connect()
    with slow.cursor() as cursor:
        cursor.execute(f"LOCK TABLE reminders.pauses IN {MARK}")
        cursor.execute(bound.plain, arguments)
        assert cursor.fetchall()
        turning = world.start(moded, world, "shadow")
        until(lambda: stands(world) is not None and stands(world).mode == "shadow", "the mode is in force")
        assert not turning.done()
        slow.commit()
    assert turning.result(10).open_claims == 1


def test_a_claim_that_begins_after_the_mode_was_set_does_not_succeed(world):
    made = world.schedule()
    world.published()
    moded(world, "shadow")
    assert world.claim(made) is None


def test_the_wait_is_bounded_and_the_mode_in_force_all_the_same(world):
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLE reminders.pauses IN {MARK}")
        with pytest.raises(ServiceUnavailable, match=r"Mode off of tenant tenant-a is in force"):
            moded(world, "off", wait=0.1)
    holder.rollback()
    assert stands(world).mode == "off"
    assert moded(world, "off").changed == {}


def test_an_open_claim_ends_as_it_would_and_its_retry_goes_by_the_mode(world):
    made = world.schedule()
    claim = world.opened(made)
    assert moded(world, "off").open_claims == 1
    assert world.finalize(claim, Retry("busy", "later")) == "parked"
    world.published(world.lapse(60))
    assert world.status(made.id) == ("held", "retrying")


def test_a_new_tenant_starts_as_the_settings_say_and_known_ones_stay(world):
    known = world.schedule(tenant_id="known")
    assert len(world.published()) == 1
    for mode in ("off", "shadow"):
        made = world.schedule(tenant_id=f"new-{mode}")
        asked = Dispatcher("main", mode)
        world.published(dispatcher=asked)
        provider = ScriptedProvider()
        word = world.deliver(provider, dispatcher=asked)(made.id, made.delivery_key)
        assert (word, provider.calls) == ({"off": "paused", "shadow": "shadowed"}[mode], [])
        assert stands(world, f"new-{mode}").mode == mode
    assert stands(world, "known").mode == "live"
    assert (
        world.deliver(ScriptedProvider(), dispatcher=Dispatcher("main", "off"))(known.id, known.delivery_key)
        == "delivered"
    )


def test_a_message_of_an_older_scan_meets_a_new_tenant_by_itself(world):
    made = world.schedule()
    world.published()
    world.sql("DELETE FROM reminders.tenant_policies")
    provider = ScriptedProvider()
    asked = Dispatcher("main", "off")
    assert world.deliver(provider, dispatcher=asked)(made.id, made.delivery_key) == "paused"
    assert (stands(world).mode, provider.calls) == ("off", [])


def test_many_that_meet_a_new_tenant_at_once_agree(world):
    made = [world.schedule() for _ in range(8)]
    world.published()
    world.sql("DELETE FROM reminders.tenant_policies")
    asked = Dispatcher("main", "off")
    deliver = world.deliver(ScriptedProvider(), dispatcher=asked)
    words = [world.start(deliver, each.id, each.delivery_key) for each in made]
    assert {word.result(20) for word in words} == {"paused"}
    assert len(listed(world.database)) == 1


def test_a_cohort_moves_as_a_whole_in_one_step(world):
    assert add(world.database, "early", ["t1", "t2", "t1"], actor="ada") == ["t1", "t2"]
    assert add(world.database, "early", ["t2", "t3"], actor="ada") == ["t3"]
    moved = set_mode(world.database, Wanted(cohort="early"), "shadow", **WORD)
    assert moved.changed == {"t1": "live", "t2": "live", "t3": "live"}
    assert remove(world.database, "early", ["t3", "t9"]) == ["t3"]
    assert set_mode(world.database, Wanted(cohort="early"), "off", **WORD).tenants == ["t1", "t2"]
    assert [(each.tenant_id, each.mode) for each in members(world.database, None, limit=9)] == [
        ("t1", "off"),
        ("t2", "off"),
    ]
    assert counted(world.database) == ({"off": 2, "shadow": 1}, {"main": 3})
    assert stands(world, "t1").cohorts == ["early"]


def test_a_cohort_is_moved_wholly_or_not_at_all(world):
    add(world.database, "early", ["t1", "t2"], actor="ada")
    set_mode(world.database, Wanted(cohort="early"), "live", **WORD)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.tenant_policies WHERE tenant_id = 't2' FOR UPDATE")
        moving = world.start(set_mode, world.database, Wanted(cohort="early"), "off", **WORD)
        world.waiting_for_a_lock()
        assert [stands(world, each).mode for each in ("t1", "t2")] == ["live", "live"]
        holder.rollback()
    assert moving.result(10).changed == {"t1": "live", "t2": "live"}


def test_what_cannot_be_moved_is_refused_by_name(world):
    with pytest.raises(NotFound, match="cohort nobody has no tenants"):
        set_mode(world.database, Wanted(cohort="nobody"), "off", **WORD)
    with pytest.raises(InvalidInput, match="reason"):
        moded(world, "off", reason=" ")
    with pytest.raises(InvalidInput, match="cohort"):
        add(world.database, "no name", ["t"], actor="ada")
    assert stands(world) is None


def test_every_change_is_on_record(world):
    moded(world, "shadow")
    moded(world, "live", actor="bo", reason="seen enough")
    rows = world.sql("SELECT mode_before, mode, actor, reason FROM reminders.tenant_changes ORDER BY changed_at")
    assert rows == [("live", "shadow", "ada", "rehearsal"), ("shadow", "live", "bo", "seen enough")]
    assert (stands(world).actor, stands(world).reason) == ("bo", "seen enough")


def test_a_policy_that_is_taken_back_leaves_the_mode(world):
    from reminders.ledger.tenant_policies import set_policy

    moded(world, "off")
    set_policy(world.database, "tenant-a", on_unknown="review")
    set_policy(world.database, "tenant-a", on_unknown="default")
    assert stands(world).mode == "off"


@pytest.mark.parametrize(
    "row",
    [
        "'t', 'log', 'off', 'main', NULL",
        "'t', '', 'odd', 'main', NULL",
        "'t', '', 'live', NULL, NULL",
        "'t', '', NULL, NULL, 1",
    ],
)
def test_a_row_that_cannot_be_is_impossible(world, row):
    with pytest.raises(psycopg2.errors.CheckViolation):
        world.sql(f"INSERT INTO reminders.tenant_policies (tenant_id, channel, mode, dispatcher, epoch) VALUES ({row})")

"""Caps at lease time: no more goes out than a rate lets pass, what waits has its turn in the ledger, and neighbours pay nothing."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

import reminders
from integration.ledger.world import World, until
from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Delivered
from reminders.domain.pauses import PauseScope
from reminders.ledger.rates import rates, remove_rate, set_rate
from reminders.ledger.status import ledger_status

LOUD = PauseScope(tenant_id="loud")


def capped(world: World, scope: PauseScope = LOUD, **cap):
    return set_rate(world.database, scope, actor="ada", reason="their wish", **{"per_second": 10.0, **cap})


def burst(world: World, tenant: str, count: int, destination: str = "place", age: float = 60.0):
    wanted = [
        world.wanted(
            tenant_id=tenant, destination=destination, due_at=world.now - timedelta(seconds=age - number / 1000)
        )
        for number in range(count)
    ]
    return world.committed(reminders.schedule_many, wanted)


def at(world: World, seconds: float) -> datetime:
    return world.now + timedelta(seconds=seconds)


def scan(world: World, seconds: float, **policy):
    """What one look of a new scanner sends, `seconds` from now."""
    world.scanning(now=at(world, seconds), in_flight=10_000, batch=10_000, **policy).once()
    return world.broker.take()


def waiting(world: World):
    return world.sql(
        "SELECT id, wake_at, waits_since, give_up_at FROM reminders.due WHERE status = 'pending' AND turn_at = wake_at ORDER BY wake_at"
    )


def test_a_burst_gets_its_turns_spaced_by_the_rate_oldest_first(world):
    cap = capped(world, burst=5)
    made = burst(world, "loud", 50)
    first = scan(world, 0)
    assert [message.reminder_id for message in first] == [each.id for each in made[:5]]
    assert {message.caps for message in first} == {(cap.id,)}
    rows = waiting(world)
    assert [row[0] for row in rows] == [each.id for each in made[5:]]
    gaps = {round((later[1] - earlier[1]).total_seconds(), 3) for earlier, later in pairwise(rows)}
    assert gaps == {0.1}
    assert rows[0][1] - at(world, 0) <= timedelta(seconds=0.11)
    assert {row[2] for row in rows} == {each.due_at for each in made[5:]}


def test_looks_in_between_send_no_more_than_the_rate_and_move_no_row_twice(world):
    capped(world, burst=5)
    burst(world, "loud", 50)
    sent = [len(scan(world, seconds / 4)) for seconds in range(20)]
    assert sum(sent) == 50
    for looks in range(1, 20):
        assert sum(sent[:looks]) <= 5 + 10 * (looks - 1) / 4 + 1
    assert sum(sent[:17]) >= 44


def test_who_has_no_cap_is_sent_at_once_and_carries_none(world):
    capped(world, burst=1)
    burst(world, "loud", 20)
    quiet = burst(world, "quiet", 20)
    sent = scan(world, 0)
    assert {message.reminder_id for message in sent if not message.caps} == {each.id for each in quiet}


def test_waiting_burns_nothing_and_is_bounded(world):
    capped(world, per_second=0.001, burst=1)
    made = burst(world, "loud", 3)
    scan(world, 0)
    rows = waiting(world)
    assert len(rows) == 2
    assert {round((row[3] - at(world, 0)).total_seconds()) for row in rows} == {72 * 3600}
    assert world.sql("SELECT max(attempts) FROM reminders.due") == [(0,)]
    scan(world, 72 * 3600 + 1)
    ended = [each.id for each in made if world.letters(each.id)]
    assert len(ended) == 2
    assert {world.letters(each)[0][2] for each in ended} == {"waited_too_long"}


def test_an_expiry_ends_what_waits(world):
    capped(world, per_second=0.01, burst=1)
    made = world.committed(
        reminders.schedule_many,
        [world.wanted(tenant_id="loud", expires_at=world.now + timedelta(seconds=30)) for _ in range(3)],
    )
    (sent,) = scan(world, 0)
    scan(world, 31)
    assert {world.status(each.id)[0] for each in made if each.id != sent.reminder_id} == {"expired"}


def test_what_waits_can_be_cancelled_and_the_others_are_woken_for_the_turns_that_are_left(world):
    capped(world, per_second=1.0, burst=1)
    made = burst(world, "loud", 30)
    scan(world, 0)
    for each in made[1:21]:
        assert world.committed(reminders.cancel, each.id) == "cancelled"
    # The turns of the last second are not lost yet.
    assert {message.reminder_id for message in scan(world, 3)} == {made[21].id, made[22].id}


def test_when_those_that_would_be_next_are_cancelled_the_rate_is_kept_by_those_that_wait_behind_them(world):
    capped(world, per_second=5.0, burst=5)
    made = burst(world, "loud", 440)
    scan(world, 0)
    world.committed(lambda connection: [reminders.cancel(connection, each.id) for each in made[5:305]])
    chance = random.Random(3)
    now, sent = 0.0, 0
    while now < 20.0:
        now += chance.uniform(0.05, 0.5)
        sent += len(scan(world, now))
    assert sent == pytest.approx(5 * now, rel=0.05)


def test_looks_that_come_late_lose_no_turn_of_a_cap_without_a_burst(world):
    capped(world, per_second=3.0, burst=1)
    burst(world, "loud", 80)
    sent, now, chance = len(scan(world, 0)), 0.0, random.Random(5)
    while now < 20.0:
        now += chance.uniform(0.05, 0.6)
        sent += len(scan(world, now))
    assert 1 + 3 * (now - 0.7) <= sent <= 1 + 3 * (now + 1)


def test_a_tenant_with_a_cap_of_its_own_has_its_turns_of_a_rate_that_others_share(world):
    capped(world, PauseScope(channel="log"), per_second=5.0, burst=5)
    capped(world, PauseScope(tenant_id="narrow"), per_second=0.5, burst=1)
    for tenant in ("loud", "louder"):
        burst(world, tenant, 200, age=600)
    narrow = {each.id for each in burst(world, "narrow", 40, age=60)}
    sent, now, chance = [], 0.0, random.Random(9)
    while now < 30.0:
        now += chance.uniform(0.05, 0.25)
        sent += [message.reminder_id for message in scan(world, now)]
    assert len(sent) == pytest.approx(5 * now, rel=0.06)
    assert len(narrow & set(sent)) == pytest.approx(0.5 * now, abs=4)


def test_a_reminder_that_was_moved_while_it_waited_is_not_woken_for_a_turn(world):
    capped(world, per_second=1.0, burst=1)
    made = burst(world, "loud", 3)
    scan(world, 0)
    world.committed(reminders.reschedule, made[1].id, due_at=world.now + timedelta(hours=5))
    assert [message.reminder_id for message in scan(world, 100)] == [made[2].id]
    assert scan(world, 110) == []


def test_another_rate_or_none_holds_for_what_waits_already(world):
    capped(world, per_second=0.01, burst=1)
    made = burst(world, "loud", 41)
    scan(world, 0)
    faster = capped(world, per_second=20.0, burst=20)
    sent = scan(world, 1)
    assert {message.reminder_id for message in sent} == {each.id for each in made[1:22]}
    assert {message.caps for message in sent} == {(faster.id,)}
    ended = remove_rate(world.database, LOUD, actor="bea", reason="no need")
    assert (ended.removed_by, ended.removed_reason, ended.waiting) == ("bea", "no need", 19)
    assert [message.caps for message in scan(world, 1.01)] == [()] * 19


def test_the_words_stay_on_record(world):
    capped(world, burst=7, concurrent=3)
    capped(world, per_second=2.5)
    before, now = rates(world.database, removed=True)
    assert (before.per_second, before.burst, before.concurrent, before.removed_reason) == (
        10.0,
        7,
        3,
        "replaced: their wish",
    )
    assert (now.per_second, now.burst, now.concurrent, now.actor, now.reason) == (2.5, 2, None, "ada", "their wish")
    assert [each.id for each in rates(world.database)] == [now.id]
    with pytest.raises(NotFound):
        remove_rate(world.database, PauseScope(channel="log"), actor="ada", reason="r")


@pytest.mark.parametrize(
    ("scope", "cap"),
    [
        (PauseScope(), {"per_second": 1.0}),
        (PauseScope(tenant_id="a", channel="log"), {"per_second": 1.0}),
        (PauseScope(kind="note"), {"per_second": 1.0}),
        (LOUD, {}),
        (LOUD, {"per_second": 0.0}),
        (LOUD, {"per_second": 1e-13}),
        (LOUD, {"per_second": float("nan")}),
        (LOUD, {"per_second": 1.0, "burst": 0}),
        (LOUD, {"burst": 3}),
        (LOUD, {"concurrent": 0}),
    ],
)
def test_what_caps_nothing_or_too_much_is_refused(world, scope, cap):
    with pytest.raises(InvalidInput):
        set_rate(world.database, scope, actor="ada", reason="r", **cap)


def test_a_cap_on_calls_lets_as_many_out_as_may_be_open_and_the_next_when_one_has_ended(world):
    set_rate(world.database, LOUD, concurrent=3, actor="ada", reason="r")
    made = burst(world, "loud", 10)
    sent = scan(world, 0)
    assert [message.reminder_id for message in sent] == [each.id for each in made[:3]]
    assert scan(world, 1) == []
    claim = world.claim(made[0])
    assert scan(world, 2) == []
    assert world.finalize(claim, Delivered("r")) == "delivered"
    assert [message.reminder_id for message in scan(world, 3)] == [made[3].id]


def test_of_several_caps_each_is_kept(world):
    place = destination_id("loud", "log", "narrow")
    capped(world, PauseScope(destination_id=place), per_second=1.0, burst=2)
    capped(world, per_second=1.0, burst=5)
    capped(world, PauseScope(channel="log"), per_second=1.0, burst=9)
    burst(world, "loud", 10, "narrow", age=90)
    burst(world, "loud", 10, "wide", age=80)
    burst(world, "quiet", 10, "place", age=70)
    sent = scan(world, 0)
    lanes = dict(world.sql("SELECT id::text, destination FROM reminders.reminders"))
    assert Counter(lanes[str(message.reminder_id)] for message in sent) == {"narrow": 2, "wide": 3, "place": 4}


def test_a_rate_that_tenants_share_goes_round_them(world):
    capped(world, PauseScope(channel="log"), per_second=10.0, burst=5)
    burst(world, "loud", 500, age=600)
    scan(world, 0)
    for step in range(1, 21):
        scan(world, step / 4)
    fresh = burst(world, "fresh", 1, age=0.0)
    sent_at = next(step for step in range(40) if fresh[0].id in {m.reminder_id for m in scan(world, 5.25 + step / 4)})
    assert sent_at <= 4


def test_two_scanners_at_once_give_no_turn_out_twice(world):
    capped(world, per_second=0.01, burst=10)
    burst(world, "loud", 200)
    scanners = [world.scanning(batch=50, in_flight=10_000) for _ in range(4)]
    for running in [world.start(each.once) for each in scanners for _ in range(2)]:
        running.result()
    assert len(world.broker.take()) == 10


def test_lateness_of_what_waits_is_shown(world):
    capped(world, per_second=0.01, burst=1)
    burst(world, "loud", 5, age=3600)
    scan(world, 0)
    found = ledger_status(world.database)
    assert found["oldest_due_age_seconds"] >= 3600
    assert [(each.waiting, each.per_second) for each in found["rates"]] == [(4, 0.01)]
    assert until(lambda: rates(world.database)[0].waiting_since, "a time") < datetime.now(UTC) - timedelta(minutes=59)

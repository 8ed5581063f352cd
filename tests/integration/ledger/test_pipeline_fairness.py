"""When more is due than fits, every tenant with due work gets its turn, whatever another one's burst (G9)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import ScriptedProvider, World

OTHERS = "bcdefghijk"


def schedule_lanes(world: World, counts: dict[str, int], destination: str = "place-{}") -> dict:
    """So many due reminders for each tenant, the first tenant's the oldest, each to another destination; whose each is."""
    wanted = [
        world.wanted(
            tenant_id=tenant,
            due_at=world.now - timedelta(hours=2) + timedelta(minutes=place),
            destination=destination.format(number),
        )
        for place, (tenant, count) in enumerate(counts.items())
        for number in range(count)
    ]
    made = world.committed(reminders.schedule_many, wanted)
    return {each.id: given["tenant_id"] for each, given in zip(made, wanted, strict=True)}


def tenants(messages, lane_of) -> Counter:
    return Counter(lane_of[message.reminder_id] for message in messages)


def test_a_burst_does_not_keep_the_others_out_of_the_first_two_batches(world):
    lane_of = schedule_lanes(world, {"a": 3000, **dict.fromkeys(OTHERS, 1)})
    scan = world.scanning(batch=100, in_flight=1000)
    scan.once()
    scan.once()
    first_two = world.broker.batches[0] + world.broker.batches[1]
    assert len(world.broker.batches) == 2
    assert set(OTHERS) <= set(tenants(first_two, lane_of))


def test_messages_of_one_batch_go_out_lane_by_lane(world):
    lane_of = schedule_lanes(world, {"a": 50, "b": 50, "c": 50})
    world.scanning(batch=9, in_flight=1000).once()
    assert Counter(lane_of[message.reminder_id] for message in world.broker.sent[:3]) == {"a": 1, "b": 1, "c": 1}
    assert tenants(world.broker.sent, lane_of) == {"a": 3, "b": 3, "c": 3}


def test_each_lane_goes_oldest_first(world):
    made = [world.schedule(tenant_id="a", due_at=world.now - timedelta(minutes=minutes)) for minutes in (5, 30, 10, 20)]
    world.schedule(tenant_id="b")
    messages = world.published()
    assert [m.reminder_id for m in messages if m.reminder_id in {each.id for each in made}] == [
        made[1].id, made[3].id, made[2].id, made[0].id,
    ]  # fmt: skip


@pytest.mark.parametrize("lanes", [5, 7, 10, 16])
@pytest.mark.parametrize("room", [1, 3])
def test_little_room_goes_round_all_lanes(world, lanes, room):
    """A full queue leaves room for a few at a time: the turn goes on where it stopped, for any number of lanes."""
    names = [f"tenant-{number:02}" for number in range(lanes)]
    lane_of = schedule_lanes(world, dict.fromkeys(names, 6))
    scan = world.scanning(in_flight=room)
    for _ in range(-(-3 * lanes // room)):
        scan.once()
        finish(world, world.broker.take())
    served = tenants([message for batch in world.broker.batches for message in batch], lane_of)
    assert set(served) == set(names)
    assert min(served.values()) >= 2
    assert max(served.values()) <= 5


def test_one_tenant_holds_at_most_half_while_others_have_due_work(world):
    lane_of = schedule_lanes(world, {"a": 500, "b": 500})
    scan = world.scanning(in_flight=40)
    while scan.once().published:
        pass
    assert tenants(world.broker.sent, lane_of) == {"a": 20, "b": 20}
    for message in [message for message in world.broker.sent if lane_of[message.reminder_id] == "b"]:
        finish(world, [message])
        world.broker.sent.remove(message)
    while scan.once().published:
        pass
    assert tenants(world.broker.sent, lane_of) == {"a": 20, "b": 20}


def test_a_tenant_alone_with_due_work_fills_the_room(world):
    lane_of = schedule_lanes(world, {"a": 500})
    scan = world.scanning(in_flight=40)
    while scan.once().published:
        pass
    assert tenants(world.broker.sent, lane_of) == {"a": 40}


@pytest.mark.parametrize("destination", ["place-{}", "one place"])
def test_when_the_others_are_served_the_burst_gets_the_rest(world, destination):
    lane_of = schedule_lanes(world, {"a": 500, "b": 1}, destination)
    scan = world.scanning(in_flight=40)
    while scan.once().published:
        pass
    assert tenants(world.broker.sent, lane_of) == {"a": 39, "b": 1}


def finish(world: World, messages) -> None:
    """Deliver what was published, as far as the scan can see: the rows leave the wake table."""
    from integration.ledger.world import ScriptedProvider

    deliver = world.deliver(ScriptedProvider())
    for message in messages:
        assert deliver(message.reminder_id, message.delivery_key) == "delivered"


def test_retries_of_destinations_that_time_out_take_a_quarter_of_the_room_at_most(world):
    slow = [world.schedule(tenant_id="slow") for _ in range(60)]
    world.sql("UPDATE reminders.due SET route = 'retry'")
    scan = world.scanning(in_flight=40)
    scan.once()
    first = world.broker.take()
    assert [message.route for message in first] == ["retry"] * 10
    fresh = world.schedule(tenant_id="fresh")
    scan.once()
    assert [message.reminder_id for message in world.broker.take()] == [fresh.id]

    deliver = world.deliver(ScriptedProvider())
    for message in first:
        assert deliver(message.reminder_id, message.delivery_key) == "delivered"
    # Those that found no room were not put off for a whole lease: they go as soon as there is some again.
    later = world.scanning(in_flight=40, now=world.lapse(2))
    later.once()
    assert len(world.broker.take()) == 10
    assert len(slow) == 60


def held(world: World) -> Counter:
    """What is in flight, by address."""
    query = """SELECT r.destination, count(*) FROM reminders.due d JOIN reminders.reminders r USING (id)
               WHERE d.status = 'published' GROUP BY 1"""
    return Counter(dict(world.sql(query)))


def schedule_places(world: World, counts: dict[str, int], tenant: str = "a") -> None:
    """So many due reminders of one tenant for each destination, the first destination's the oldest."""
    wanted = [
        world.wanted(
            tenant_id=tenant, destination=place, due_at=world.now - timedelta(hours=2) + timedelta(minutes=minutes)
        )
        for minutes, (place, count) in enumerate(counts.items())
        for _ in range(count)
    ]
    world.committed(reminders.schedule_many, wanted)


def filled(world: World, **policy) -> Counter:
    scan = world.scanning(**policy)
    quiet = 0
    while quiet < 3:  # one pass may only find out whose rows stand in the way
        quiet = 0 if scan.once().published else quiet + 1
    return held(world)


def test_one_destination_holds_at_most_a_tenth_while_others_have_due_work(world):
    schedule_places(world, {"slow": 300, "quick": 60})
    assert filled(world, in_flight=40) == {"slow": 4, "quick": 4}


def test_a_destination_alone_with_due_work_fills_the_room(world):
    schedule_places(world, {"only": 300})
    assert filled(world, in_flight=40) == {"only": 40}


def test_a_burst_longer_than_one_look_hides_nobody_for_long(world):
    """Whoever is due behind it is reached in a number of looks that does not depend on what it would take to send it."""
    schedule_places(world, {"slow": 6000, "behind": 3})
    scan = world.scanning(in_flight=40, batch=100)
    looks = 0
    while held(world)["behind"] < 3:
        scan.once()
        looks += 1
    assert looks <= 4
    assert held(world)["slow"] == 4


def test_destinations_of_a_tenant_together_hold_at_most_its_half(world):
    schedule_places(world, {f"place-{number}": 20 for number in range(12)})
    schedule_places(world, {f"theirs-{number}": 20 for number in range(12)}, tenant="b")
    found = filled(world, in_flight=40)
    assert max(found.values()) <= 4
    assert sum(number for place, number in found.items() if place.startswith("place")) == 20
    assert sum(number for place, number in found.items() if place.startswith("theirs")) == 20


def test_a_destination_that_had_its_share_gets_more_as_it_delivers(world):
    schedule_places(world, {"slow": 300, "quick": 300})
    scan = world.scanning(in_flight=40)
    for _ in range(5):
        while scan.once().published:
            pass
        assert held(world) == {"slow": 4, "quick": 4}
        finish(world, world.broker.take())
    assert world.sql("SELECT count(*) FROM reminders.reminders WHERE status = 'delivered'")[0][0] == 40


def test_rows_of_a_release_that_knew_no_destinations_are_sent_as_before(world):
    schedule_places(world, {"old": 300})
    world.sql("UPDATE reminders.due SET destination_id = NULL")
    assert filled(world, in_flight=40) == {"old": 40}


def test_work_that_waits_for_its_share_is_looked_at_again_at_once(world):
    schedule_places(world, {"slow": 300, "quick": 300})
    scan = world.scanning(in_flight=40)
    while scan.once().published:
        pass
    assert scan.once().full

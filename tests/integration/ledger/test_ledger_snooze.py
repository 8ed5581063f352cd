"""Putting one reminder off: later, once, and never where it may have been sent or has ended."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

import reminders
from integration.ledger.pauses import held
from integration.ledger.world import NOW, ScriptedProvider
from reminders import InvalidInput, NotFound, Refused
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)
HOUR = timedelta(hours=1)
TOMORROW = NOW + timedelta(days=1)


def snooze(world, made, **given):
    return world.committed(reminders.snooze, made.id, **given)


def at_stage(world, stage, **changed):
    made = world.schedule(**changed)
    if stage in {"leased", "published"}:
        world.broker.accepts = 0 if stage == "leased" else None
        world.scanning().once()
        world.broker.accepts = None
        world.broker.take()
    elif stage == "parked":
        world.finalize(world.opened(made), AGAIN)
    elif stage == "sending":
        world.opened(made)
    elif stage == "uncertain":
        world.finalize(world.opened(made), LOST)
    elif stage == "delivered":
        world.finalize(world.opened(made), Delivered())
    elif stage == "dead":
        world.finalize(world.opened(made), Rejected("gone", ""))
    elif stage == "cancelled":
        world.committed(reminders.cancel, made.id)
    elif stage == "expired":
        late = world.now + timedelta(hours=2)
        world.published(late)
        world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key)
    return made


@pytest.mark.parametrize("stage", ["pending", "leased", "published", "parked"])
def test_what_is_live_goes_out_once_at_the_later_time(world, stage):
    made = at_stage(world, stage)
    put_off = snooze(world, made, until=TOMORROW)
    assert (put_off.version, put_off.due_at, put_off.status) == (2, TOMORROW, "pending")
    assert world.published(TOMORROW - timedelta(seconds=1)) == []
    (message,) = world.published(TOMORROW)
    provider = ScriptedProvider()
    deliver = world.deliver(provider, now=TOMORROW)
    assert deliver(made.id, made.delivery_key) == "superseded"
    assert deliver(made.id, message.delivery_key) == "delivered"
    assert [key for key, *_ in provider.calls] == [put_off.delivery_key]


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("sending", "is being sent right now"),
        ("uncertain", "may already have been sent"),
        ("delivered", "is already delivered"),
        ("dead", "is dead: only one that has not ended can be snoozed"),
        ("cancelled", "is cancelled: only one that has not ended can be snoozed"),
        ("expired", "is expired: only one that has not ended can be snoozed"),
    ],
)
def test_it_is_refused_and_says_why(world, stage, said):
    made = at_stage(world, stage, expires_at=world.now + HOUR)
    before = world.committed(reminders.get, made.id)
    with pytest.raises(Refused, match=said):
        snooze(world, made, by=timedelta(minutes=10))
    assert world.committed(reminders.get, made.id) == before


def test_by_counts_from_when_it_is_due_if_that_is_ahead(world):
    made = world.schedule(due_at=TOMORROW)
    assert snooze(world, made, by=HOUR).due_at == TOMORROW + HOUR
    assert snooze(world, made, by=HOUR).due_at == TOMORROW + 2 * HOUR


def test_by_counts_from_now_if_it_was_due_before(world):
    made = world.schedule(due_at=world.now - timedelta(days=3))
    ((before,),) = world.sql("SELECT clock_timestamp()")
    put_off = snooze(world, made, by=HOUR)
    ((after,),) = world.sql("SELECT clock_timestamp()")
    assert before + HOUR <= put_off.due_at <= after + HOUR


def test_a_day_is_24_hours_whatever_the_sessions_zone(world):
    made = world.schedule(due_at=datetime.fromisoformat("2030-03-30T12:00:00+01:00"))
    with world.connect(options="-c timezone=Europe/Berlin") as connection:
        put_off = reminders.snooze(connection, made.id, by=timedelta(days=1))
    assert put_off.due_at == datetime.fromisoformat("2030-03-31T11:00:00+00:00")


def test_the_expiry_stays_and_is_not_snoozed_past(world):
    expiry = TOMORROW + HOUR
    made = world.schedule(expires_at=expiry)
    assert snooze(world, made, until=TOMORROW).due_at == TOMORROW
    assert world.committed(reminders.get, made.id).expires_at == expiry
    for given in ({"until": expiry}, {"until": expiry + HOUR}, {"by": 2 * HOUR}):
        with pytest.raises(InvalidInput, match="reaches its expires_at") as caught:
            snooze(world, made, **given)
        assert caught.value.field in given
    assert world.committed(reminders.get, made.id).version == 2


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("until", {}),
        ("until", {"until": TOMORROW, "by": HOUR}),
        ("until", {"until": datetime(2030, 1, 1)}),
        ("until", {"until": "tomorrow"}),
        ("until", {"until": NOW - HOUR}),
        ("until", {"until": TOMORROW.replace(year=9999)}),
        ("by", {"by": 60}),
        ("by", {"by": timedelta(0)}),
        ("by", {"by": -HOUR}),
        ("by", {"by": timedelta.max}),
        ("by", {"by": timedelta(days=365 * 7999)}),
    ],
)
def test_a_time_that_is_none_is_named_and_nothing_changes(world, field, given):
    made = world.schedule(due_at=TOMORROW - HOUR)
    connection = world.connect()
    with pytest.raises(InvalidInput) as caught:
        reminders.snooze(connection, made.id, **given)
    assert caught.value.field == field
    assert reminders.get(connection, made.id).version == 1


def test_it_never_moves_forward(world):
    made = world.schedule(due_at=TOMORROW)
    with pytest.raises(InvalidInput, match="must be later than its due_at"):
        snooze(world, made, until=TOMORROW - HOUR)


def test_what_is_not_there_is_said(world):
    with pytest.raises(NotFound):
        world.committed(reminders.snooze, uuid7(), by=HOUR)


def test_a_paused_reminder_is_put_off_and_held_again_when_it_is_due(world):
    made = world.schedule()
    held(world, made)
    assert snooze(world, made, until=TOMORROW).status == "pending"
    world.published(TOMORROW)
    assert world.status(made.id)[0] == "held"

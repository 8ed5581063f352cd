"""Series that fire in the zone of their recipient, and go with it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

import reminders
from integration.ledger.series_stage import NOON, at, wanted
from reminders.ledger import planning, series_changing
from reminders.ledger.caller import fetch
from reminders.ledger.series_zones import users_zone_changed

FIRST, SECOND = "20300502T090000", "20300503T090000"
USER = {"tenant_id": "tenant-a", "user_id": "user-1"}
TOMORROW = datetime(2030, 5, 2, 9)


def test_until_the_recipients_zone_is_known_its_own_holds(stage, world):
    series = stage.schedule(follows_user=True, start=TOMORROW)
    assert stage.live(series) == [(FIRST, at(2, 7))]
    world.committed(reminders.set_recipient, **USER, zone="America/New_York")
    found = stage.get(series)
    assert found.replan
    assert found.plan_at <= datetime.now(UTC)
    stage.plan(NOON)
    assert stage.live(series) == [(FIRST, at(2, 13))]
    found = stage.get(series)
    assert (found.planned_zone, found.replan, found.plan_at) == ("America/New_York", False, at(2, 13))


def test_a_new_series_begins_in_the_zone_of_its_recipient(stage, world):
    world.committed(reminders.set_recipient, **USER, zone="America/New_York")
    assert stage.live(stage.schedule(follows_user=True, start=TOMORROW)) == [(FIRST, at(2, 13))]
    other = stage.schedule(start=TOMORROW, reference="keeps its own")
    assert stage.live(other) == [(FIRST, at(2, 7))]


def test_only_series_that_follow_the_user_move_and_one_off_reminders_never(stage, world):
    stays = stage.schedule(start=TOMORROW, reference="stays")
    of_another = stage.schedule(start=TOMORROW, follows_user=True, user_id="user-2")
    once = world.schedule(due_at=datetime(2030, 5, 2, 9), zone="Europe/Berlin")
    world.committed(reminders.set_recipient, **USER, zone="America/New_York")
    stage.plan(NOON)
    for series in (stays, of_another):
        assert stage.live(series) == [(FIRST, at(2, 7))]
    assert world.column("reminders", "due_at", once.id) == at(2, 7)


def test_a_zone_taken_back_brings_the_series_own_back(stage, world):
    series = stage.schedule(follows_user=True, start=TOMORROW)
    for zone in ("America/New_York", None):
        world.committed(reminders.set_recipient, **USER, zone=zone)
        stage.plan(NOON)
    assert stage.live(series) == [(FIRST, at(2, 7))]


def test_another_language_of_the_recipient_asks_for_nothing(stage, world):
    series = stage.schedule(follows_user=True, start=TOMORROW)
    world.committed(reminders.set_recipient, **USER, locale="de")
    assert not stage.get(series).replan


def test_a_change_that_is_rolled_back_moves_nothing(stage, world):
    series = stage.schedule(follows_user=True, start=TOMORROW)
    connection = world.connect()
    reminders.set_recipient(connection, **USER, zone="America/New_York")
    connection.rollback()
    stage.plan(NOON)
    assert stage.live(series) == [(FIRST, at(2, 7))]


def test_a_paused_series_is_resumed_in_the_zone_of_then(stage, world):
    series = stage.schedule(follows_user=True, start=TOMORROW)
    stage.committed(series_changing.pause, series.id, now=NOON)
    world.committed(reminders.set_recipient, **USER, zone="America/New_York")
    stage.committed(series_changing.resume, series.id, now=NOON)
    assert stage.live(series) == [(FIRST, at(2, 13))]


@pytest.mark.parametrize("asks", [True, False])
def test_a_zone_that_changes_while_the_planner_works_is_seen_before_it_has_committed(stage, world, monkeypatch, asks):
    """Committed between the planner's look and its last word; whether or not its series could be asked in time."""
    series = stage.schedule(follows_user=True, start=TOMORROW)
    real = planning.record_skips

    def record_skips(*given):
        query = """INSERT INTO reminders.recipients (tenant_id, user_id, zone) VALUES ('tenant-a', 'user-1', 'America/New_York')
                   ON CONFLICT (tenant_id, user_id) DO UPDATE SET zone = EXCLUDED.zone"""
        world.sql(query)
        real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(planning, "record_skips", record_skips)
        stage.plan(at(2, 7))
    assert stage.live(series)[1] == (SECOND, at(3, 7))
    assert stage.get(series).replan
    if asks:
        with world.connect() as connection:
            assert users_zone_changed(partial(fetch, connection, "reminders"), "tenant-a", "user-1") == 1
    stage.plan(at(2, 7))
    # The second of May came due in Berlin, and is still the next turn in New York.
    assert (stage.get(series).planned_zone, stage.get(series).plan_at) == ("America/New_York", at(2, 13))
    stage.plan(at(2, 13))
    assert stage.live(series) == [(FIRST, at(2, 7)), (SECOND, at(3, 13))]


def test_the_api_takes_it(world):
    with world.connect() as connection:
        reminders.set_recipient(connection, **USER, zone="Asia/Tokyo")
        made = reminders.schedule_series(connection, **wanted(follows_user=True))
        assert made.next_at.astimezone(UTC).hour == 0
        assert reminders.edit_series(connection, made.id, follows_user=False).next_at.astimezone(UTC).hour in {7, 8}

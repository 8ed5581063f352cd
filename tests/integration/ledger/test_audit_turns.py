"""What the audit of series finds lost, and what it does not: each turn here is taken away by hand."""

from __future__ import annotations

from datetime import datetime

import pytest

import reminders
from integration.ledger.series_stage import NOON, at
from reminders.ledger import audit_turns, series_changing, series_turns

NOW = at(6, 12)
TURN = "20300504T090000"


def lost(stage, since=NOON, now=NOW):
    with stage.world.database.transaction() as connection:
        rows = list(audit_turns.lost_turns(connection, "reminders", since=since, now=now))
    return [detail.split()[1] for _, _, detail in rows]


@pytest.fixture(autouse=True)
def _by_hand(stage):
    """What these tests take away are no moves of the pipeline."""
    yield
    stage.world.sql("DELETE FROM audit.moves")


@pytest.fixture
def series(stage):
    """Every day at nine; the turns of the second to the sixth are made, and the next one."""
    made = stage.schedule(catch_up="all")
    stage.plan(NOW)
    return made


def take_away(stage, turn=TURN):
    stage.world.sql(
        "DELETE FROM reminders.due WHERE id = (SELECT id FROM reminders.reminders WHERE recurrence_id = %s)", turn
    )
    assert stage.world.sql("DELETE FROM reminders.reminders WHERE recurrence_id = %s RETURNING 1", turn) == [(1,)]


def test_a_reminder_that_is_gone_is_a_lost_turn(stage, series):
    assert lost(stage) == []
    take_away(stage)
    with stage.world.database.transaction() as connection:
        ((reminder, key, detail),) = audit_turns.lost_turns(connection, "reminders", since=NOON, now=NOW)
    assert (reminder, key) == (None, None)
    assert detail.startswith(f"turn {TURN} of series {series.id}, due at 2030-05-04")


def test_so_is_the_next_one(stage, series):
    take_away(stage, "20300507T090000")
    assert lost(stage) == ["20300507T090000"]


def test_so_is_a_record_that_is_gone(stage):
    stage.schedule(catch_up="skip")
    stage.plan(NOW)
    assert lost(stage) == []
    stage.world.sql("DELETE FROM reminders.series_skips WHERE recurrence_id = %s", TURN)
    assert lost(stage) == [TURN]


def test_so_is_one_that_its_series_has_withdrawn_and_never_brought_back(stage, series):
    stage.world.sql(
        "UPDATE reminders.reminders SET status = 'cancelled', finished_at = now(), withdrawn_at = now() WHERE recurrence_id = %s",
        TURN,
    )
    stage.world.sql(
        "DELETE FROM reminders.due WHERE id IN (SELECT id FROM reminders.reminders WHERE status = 'cancelled')"
    )
    assert lost(stage) == [TURN]


def test_one_of_a_series_that_follows_its_user_is_found_in_the_zone_that_it_was_planned_in(stage):
    stage.world.committed(reminders.set_recipient, tenant_id="tenant-a", user_id="user-1", zone="Pacific/Kiritimati")
    stage.schedule(catch_up="all", follows_user=True)
    stage.plan(NOW)
    assert lost(stage) == []
    take_away(stage)
    assert lost(stage) == [TURN]


@pytest.mark.parametrize("said", ["left out", "purged", "among many", "before that", "edited", "cancelled"])
def test_none_is_lost_that_is_accounted_for_or_not_known_any_more(stage, series, said):
    if said == "left out":
        stage.committed(series_turns.skip, series.id, datetime(2030, 5, 4, 9), now=NOW)
    if said == "purged":
        stage.world.sql(
            """INSERT INTO reminders.keys_seen (identity_key, request_hash, reminder_id, delivery_key, version, due_at, status,
                                                finished_at, purge_id)
               SELECT identity_key, request_hash, id, delivery_key, version, due_at, 'delivered', now(), id
               FROM reminders.reminders WHERE recurrence_id = %s""",
            TURN,
        )
    if said == "among many":
        stage.world.sql(
            """INSERT INTO reminders.series_skips (series_id, recurrence_id, due_at, lateness, reason, count)
               VALUES (%s, '20300505T090000', %s, '1 day', 'cap', 2)""",
            str(series.id),
            at(5, 7),
        )
    take_away(stage)
    if said == "edited":
        stage.edit(series, NOW, rule="FREQ=DAILY;BYHOUR=9,18")
    if said == "cancelled":
        stage.committed(series_changing.cancel, series.id, now=NOW)
    assert lost(stage, since=at(4, 8) if said == "before that" else NOON) == []


def test_a_rule_that_cannot_be_read_is_told_of_elsewhere(stage, series):
    stage.world.sql("UPDATE reminders.series SET zone = 'Nowhere/At_All', planned_zone = 'Nowhere/At_All'")
    assert lost(stage) == []

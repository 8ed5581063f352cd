"""The nightly task: it goes by the setting, never runs long, and hands on what is left."""

import logging
import time
from datetime import timedelta

import pytest

from integration.audit.aging import DAY, AgingWorld
from integration.cli.stage import Stage
from reminders import bootstrap, tasks
from reminders.celery import app
from reminders.celery_options import options
from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Deliver
from reminders.ledger.purging import settle


@pytest.fixture
def stage(database, settings, services, migrated, monkeypatch):
    """A ledger that this process, as a worker, is set up for, with two that ended a hundred days ago."""
    monkeypatch.setenv("DATABASE_URL", migrated)
    monkeypatch.setenv("REDIS_URL", services.redis_url)
    stage = Stage(database, settings)
    for _ in range(2):
        stage.deliver(stage.schedule(), Delivered("far-1"), Deliver())
    AgingWorld(database).age(100 * DAY)
    yield stage
    bootstrap.database().close()


@pytest.fixture
def sent(monkeypatch):
    """What the task leaves to another message."""
    sent = []
    monkeypatch.setattr(tasks.purge_ended, "apply_async", lambda **options: sent.append(options))
    return sent


def let_others_end():
    """What is deleted waits for transactions that were open when it was marked; Postgres's own upkeep may have had one."""
    end = time.monotonic() + 30
    while settle(bootstrap.database()):
        assert time.monotonic() < end


def test_it_marks_one_night_and_deletes_the_next(stage, sent, caplog):
    with caplog.at_level(logging.INFO, logger="reminders.tasks"):
        assert tasks.purge_ended() == {"purged": 0, "marked": 2}
        let_others_end()
        assert tasks.purge_ended() == {"purged": 2, "marked": 0}
    assert (stage.count("reminders"), stage.count("keys_seen"), sent) == (0, 2, [])
    assert caplog.messages[-1] == "purge.done purged=2 marked=0 complete=True waiting=0"


def test_the_setting_counts(stage, sent, monkeypatch):
    monkeypatch.setenv("REMINDERS_RETENTION", "101d")
    assert tasks.purge_ended() == {"purged": 0, "marked": 0}


def test_out_of_time_it_leaves_the_rest_to_another_message(stage, sent, monkeypatch):
    monkeypatch.setattr(tasks, "PURGE_SECONDS", 0.0)
    assert tasks.purge_ended() == {"purged": 0, "marked": 0}
    assert sent == [{"expires": 3600.0}]


def test_it_ends_well_before_a_maintenance_task_must():
    assert tasks.PURGE_SECONDS + 5 < 30


def test_beat_sends_it_once_a_night_to_maintenance(settings):
    entry = options(settings)["beat_schedule"]["purge"]
    when = entry["schedule"]
    assert (when.hour, when.minute) == ({3}, {20})
    assert entry["options"]["expires"] <= timedelta(days=1).total_seconds()
    assert entry["task"] == tasks.purge_ended.name == "reminders.purge"
    assert app.amqp.router.route({}, entry["task"])["queue"].name == "maintenance"

"""Holding the minute: reminders scheduled meanwhile are seen within a second or so, and the hold ends when told to."""

from __future__ import annotations

import time
from threading import Event

import psycopg2

from integration.ledger.world import ScriptedProvider, until
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.outcomes import Delivered, Retry
from reminders.pipeline import scan as stage
from reminders.pipeline.finalize import RetryPolicy


class Stop(Event):
    """Knows the pauses between two looks, in seconds."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return super().wait(timeout)


def holding(world, seconds, stop, scan=None):
    return world.start((scan or world.scanning()).hold, seconds, stop)


def test_a_reminder_scheduled_meanwhile_goes_out_at_its_time_and_looks_are_a_second_apart_at_most(world):
    stop = Stop()
    hold = holding(world, 120, stop)
    until(lambda: stop.pauses, "a first look")
    due_at = world.lapse(1.2)
    made = world.schedule(due_at=due_at)
    until(lambda: world.broker.sent, "a message")
    stop.set()
    assert hold.result(timeout=30) == 1
    assert world.column("due", "published_at", made.id) >= due_at
    assert max(stop.pauses) <= 1


def test_a_short_retry_needs_no_tick(world):
    made = world.schedule()
    stop = Event()
    provider = ScriptedProvider(Retry("busy", ""), lambda: stop.set() or Delivered("r"))
    quick = world.finalizing(policy=RetryPolicy(8, (0.2,), 100.0))
    deliver = world.deliver(provider, finalize=quick)
    scan = world.scanning()

    class Hand:
        def publish(self, messages):
            for message in messages:
                deliver(message.reminder_id, message.delivery_key)
            return len(messages)

    scan.publisher = Hand()
    assert holding(world, 120, stop, scan).result(timeout=60) == 2
    assert world.status(made.id)[0] == "delivered"


def test_it_ends_at_once_when_told_to(world, monkeypatch):
    monkeypatch.setattr(stage, "LONGEST_PAUSE", 100.0)
    stop = Stop()
    hold = holding(world, 600, stop)
    until(lambda: stop.pauses, "a first look")
    stop.set()
    assert hold.result(timeout=30) == 0
    assert stop.pauses == [100]


def test_it_ends_when_its_time_is_over(world, monkeypatch):
    monkeypatch.setattr(stage, "LONGEST_PAUSE", 100.0)
    started = time.monotonic()
    assert holding(world, 0.3, Event()).result(timeout=30) == 0
    assert time.monotonic() - started > 0.25


def test_told_before_it_begins_it_does_nothing(world):
    world.schedule()
    stop = Event()
    stop.set()
    assert world.scanning().hold(60, stop) == 0
    assert world.broker.sent == []


def test_a_database_that_is_away_is_waited_for(world, caplog, monkeypatch):
    monkeypatch.setattr(stage, "PAUSE_AFTER_FAULT", 0.01)
    made = world.schedule()
    scan, stop, look = world.scanning(), Event(), world.scanning().ledger.look
    scan.faults = DATABASE_FAULTS
    failures = iter(range(3))

    class Away:
        def __getattr__(self, name):
            return getattr(world.scanning().ledger, name)

        def look(self, limit):
            if next(failures, None) is not None:
                raise psycopg2.OperationalError("the database system is shutting down")
            return look(limit)

    scan.ledger = Away()
    hold = holding(world, 120, stop, scan)
    until(lambda: world.broker.sent, "a message after the outage")
    stop.set()
    assert hold.result(timeout=30) == 1
    assert world.broker.sent[0].reminder_id == made.id
    assert caplog.text.count("scan.database_away") == 3


def test_a_broker_that_is_away_is_asked_about_once_a_second_not_forty_times(world):
    """Due work that finds no broker must not be hammered at."""
    world.schedule()
    world.broker.away = True
    asked = []
    scan = world.scanning()
    scan.gauge = type("Gauge", (), {"in_flight": lambda _: asked.append(1)})()
    scan.hold(1.3, Event())
    assert 1 <= len(asked) <= 4

"""The note of a shutdown: made once, tried again, and not made when the worker gave up by itself."""

from __future__ import annotations

import threading
from threading import Event

import pytest

from reminders.broker import shutdown


class Away(Exception):
    pass


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(shutdown, "shutting_down", Event())
    monkeypatch.setattr(shutdown, "given_up", Event())
    monkeypatch.setattr(shutdown, "AGAIN_AFTER", 0.01)


def noted(*answers):
    """Ask for notes, and then tell the worker to stop. What was recorded, and the answers that were not asked for."""
    calls, left, before = [], list(answers), threading.enumerate()

    def record(ago):
        calls.append(ago)
        answer = left.pop(0)
        if answer is not None:
            raise answer

    shutdown.note_shutdown(record, (Away,))
    (noting,) = (each for each in threading.enumerate() if each.name == "shutdown" and each not in before)
    noting.join(0.05)
    assert (noting.is_alive(), calls) == (True, [])
    shutdown.shutting_down.set()
    noting.join(30)
    assert not noting.is_alive()
    return calls, left


def test_it_is_made_when_the_worker_is_told_to_stop_and_once():
    calls, _ = noted(None)
    assert len(calls) == 1
    assert 0.0 <= calls[0] < 30.0


def test_a_database_that_is_away_is_asked_again_with_the_time_that_has_passed():
    calls, left = noted(Away(), Away(), None)
    assert left == []
    assert calls[0] < calls[1] < calls[2]


def test_any_other_failure_is_one_line_in_the_log(caplog):
    calls, left = noted(ValueError("secret"), None)
    assert (len(calls), left) == (1, [None])
    assert caplog.messages == ["shutdown.not_recorded error=ValueError"]


def test_a_worker_that_gave_up_notes_nothing():
    shutdown.given_up.set()
    assert noted(None) == ([], [None])

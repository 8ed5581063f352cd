"""Signal handlers wait for nothing that the code they interrupt may hold."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from reminders.signalled import hear_once, set_from_handler


@pytest.fixture
def handled():
    """How often a handler of SIGUSR1 has begun that is told again while it runs."""
    begun = []

    def handler(number, _frame):
        begun.append(number)
        if len(begun) < 5:
            os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    yield begun
    signal.signal(signal.SIGUSR1, before)


def test_of_signals_within_each_other_the_first_is_heard_alone(handled):
    hear_once(signal.SIGUSR1)
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert handled == [signal.SIGUSR1]


def test_the_handler_of_this_test_would_hear_all_of_them(handled):
    os.kill(os.getpid(), signal.SIGUSR1)
    assert len(handled) == 5


def test_an_event_is_set_although_the_interrupted_code_holds_its_lock():
    event = threading.Event()
    with event._cond:
        set_from_handler(event)
    assert event.wait(10)

"""What a command says while it waits."""

import threading

from reminders.cli.waiting import told_if_slow


def test_what_takes_long_is_told_once_while_it_lasts():
    told, lines = threading.Event(), []

    def tell(line):
        lines.append(line)
        told.set()

    with told_if_slow("the moon rises", after=0.001, tell=tell):
        assert told.wait(10)
    assert lines == ["waiting: the moon rises"]


def test_what_ends_in_time_is_not_told():
    # Threads of other tests may just be ending: only what begins here counts.
    lines, before = [], threading.enumerate()
    with told_if_slow("nothing", after=3600, tell=lines.append):
        (timer,) = (each for each in threading.enumerate() if isinstance(each, threading.Timer) and each not in before)
    timer.join(10)
    assert (lines, timer.is_alive()) == ([], False)

"""Foreign messages are counted by the name they bear, and nobody fills the broker with invented names."""

from __future__ import annotations

from reminders.broker import junk
from reminders.broker.junk import LONGEST_NAME, NO_MESSAGE
from reminders.pipeline.tally import MOST_NAMES, OTHERS, Tally


def test_counts_are_by_name_and_taken_once():
    tally = Tally()
    for name in ("a.task", "a.task", "another"):
        tally.add(name)
    tally.add("another", 3)
    assert tally.take() == {"a.task": 2, "another": 4}
    assert tally.take() == {}


def test_what_names_no_task_is_counted_as_no_message():
    junk.dropped.take()
    for name in ("a.task", None, 5, ""):
        junk.drop_unknown(name)
    assert junk.dropped.take() == {"a.task": 1, NO_MESSAGE: 3}


def test_what_could_not_be_reported_is_put_back():
    tally = Tally()
    tally.add("a.task")
    taken = tally.take()
    tally.add("a.task")
    tally.put_back(taken)
    assert tally.take() == {"a.task": 2}


def test_invented_names_are_counted_together():
    tally = Tally()
    for number in range(500):
        tally.add(f"task-{number}")
    counts = tally.take()
    assert sum(counts.values()) == 500
    assert len(counts) <= MOST_NAMES
    assert counts[OTHERS] > 400


def test_names_are_shortened_and_hold_no_control_characters():
    junk.dropped.take()
    junk.drop_unknown("evil\x1b[2J\n" + "x" * 500)
    (name,) = junk.dropped.take()
    assert name.startswith("evil?[2J?x")
    assert len(name) == LONGEST_NAME

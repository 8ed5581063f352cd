"""Foreign messages are counted by the name they bear, and nobody fills the broker with invented names."""

from __future__ import annotations

from reminders.broker.junk import LONGEST_NAME, MOST_NAMES, NO_MESSAGE, OTHERS, Tally


def test_counts_are_by_name_and_taken_once():
    tally = Tally()
    for name in ("a.task", "a.task", "another", None, 5, ""):
        tally.add(name)
    assert tally.take() == {"a.task": 2, "another": 1, NO_MESSAGE: 3}
    assert tally.take() == {}


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
    tally = Tally()
    tally.add("evil\x1b[2J\n" + "x" * 500)
    (name,) = tally.take()
    assert name.startswith("evil?[2J?x")
    assert len(name) == LONGEST_NAME

"""The same example told twice is the same to the last row: nothing outside of the machine decides anything."""

from __future__ import annotations

import pytest
from hypothesis.stateful import invariant, run_state_machine_as_test

from model.machine import ReminderMachine
from model.model_ledger import dump
from model.test_model import settings_for

EXAMPLES = 12


def _told(examples: int) -> list[list[str]]:
    """For each example, all that is in the ledger and on the broker after each step."""
    traces: list[list[str]] = []

    class Told(ReminderMachine):
        def __init__(self) -> None:
            super().__init__()
            traces.append([])

        @invariant()
        def note(self):
            broker = self.stage.broker
            traces[-1].append(
                "\n".join([*dump(self.stage.base), *map(str, broker.queued), *map(str, broker.unacknowledged)])
            )

        def teardown(self):
            super().teardown()
            self.note()

    run_state_machine_as_test(Told, settings=settings_for(examples, derandomize=True))
    return traces


@pytest.mark.long
def test_the_same_examples_are_the_same_whatever_came_before() -> None:
    first, again = _told(EXAMPLES), _told(EXAMPLES)
    assert [len(each) for each in first] == [len(each) for each in again]
    for number, (before, after) in enumerate(zip(first, again, strict=True)):
        for step, (one, other) in enumerate(zip(before, after, strict=True)):
            differ = set(one.splitlines()) ^ set(other.splitlines())
            assert one == other, f"example {number} differs after step {step}: {sorted(differ)}"

"""The model of the whole machine, driven by Hypothesis against the real ledger."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from model.machine import ReminderMachine

SHORT, LONG = 200, 2000
STEPS = 40


def settings_for(examples: int, **more) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        **more,
    )


@pytest.mark.timeout(900)
def test_the_guarantees_hold_whatever_happens() -> None:
    run_state_machine_as_test(ReminderMachine, settings=settings_for(SHORT, derandomize=True))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_guarantees_hold_whatever_happens_at_length(capsys: pytest.CaptureFixture[str]) -> None:
    """Another run each time; `MODEL_SEED` repeats one."""
    number = int(os.environ.get("MODEL_SEED") or random.randrange(2**32))
    with capsys.disabled():
        print(f"\nmodel test: MODEL_SEED={number}")
    seeded = seed(number)(type("SeededMachine", (ReminderMachine,), {}))
    try:
        run_state_machine_as_test(seeded, settings=settings_for(LONG, derandomize=False))
    except BaseException as error:
        # Where tests run in several processes, what they print is not shown.
        error.add_note(f"MODEL_SEED={number} repeats this run")
        raise

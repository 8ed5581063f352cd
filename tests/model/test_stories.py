"""The stories in a row, each told for certain: chance may pass them by."""

from __future__ import annotations

import pytest

from model.checks import check
from model.machine import ReminderMachine
from model.model_receiver import DELIVERED, UNKNOWN_APPLIED
from model.model_stage import PLACES

STORIES = {
    "late, repaired": lambda machine: machine.success_comes_late("repaired", DELIVERED),
    "late, published": lambda machine: machine.success_comes_late("published", DELIVERED),
    "beyond the window": lambda machine: machine.message_outlasts_the_window(UNKNOWN_APPLIED, DELIVERED),
    "cancelled, redriven": lambda machine: machine.redrive_what_was_cancelled_meanwhile(True),
}


@pytest.mark.parametrize("place", PLACES[:2], ids=lambda place: place.address)
@pytest.mark.parametrize("story", STORIES)
def test_the_guarantees_hold_in_this_story(story, place) -> None:
    machine = ReminderMachine()
    machine.schedule_first(place)
    STORIES[story](machine)
    check(machine.stage)
    machine.teardown()

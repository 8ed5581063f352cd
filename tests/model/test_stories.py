"""The stories in a row, each told for certain: chance may pass them by."""

from __future__ import annotations

import pytest

from model.checks import check
from model.machine import ReminderMachine
from model.model_receiver import DELIVERED, REFUSED, UNKNOWN, UNKNOWN_APPLIED, refuse, wait
from model.model_stage import PLACES
from model.rules_purging import RETENTION

STORIES = {
    "late, repaired": lambda machine: machine.success_comes_late("repaired", DELIVERED),
    "late, published": lambda machine: machine.success_comes_late("published", DELIVERED),
    "beyond the window": lambda machine: machine.message_outlasts_the_window(UNKNOWN_APPLIED, DELIVERED),
    "cancelled, redriven": lambda machine: machine.redrive_what_was_cancelled_meanwhile(True),
    "a shorter wait": lambda machine: machine.two_ask_to_wait(0, wait, (3600.0, 1.0), DELIVERED),
    "a longer wait": lambda machine: machine.two_ask_to_wait(0, wait, (1.0, 3600.0), DELIVERED),
    "refused for less": lambda machine: machine.two_ask_to_wait(0, refuse, (3600.0, 1.0), DELIVERED),
    "refused for longer": lambda machine: machine.two_ask_to_wait(0, refuse, (1.0, 3600.0), DELIVERED),
    "looked up": lambda machine: machine.unknown_is_looked_up(UNKNOWN_APPLIED, "told", DELIVERED, True),
    "looked up twice": lambda machine: machine.unknown_is_looked_up(UNKNOWN, "told", UNKNOWN, True),
    "looked up after a death": lambda machine: machine.unknown_is_looked_up(UNKNOWN, "dies", DELIVERED, True),
    "looked up, then told": lambda machine: machine.unknown_is_looked_up(UNKNOWN_APPLIED, "late", DELIVERED, True),
    "lived long": lambda machine: machine.purge_before_its_time(PLACES[0], DELIVERED, 0.6 * RETENTION, "get"),
    "died long ago": lambda machine: machine.purge_before_its_time(PLACES[0], REFUSED, 0.0, "get"),
    "gone": lambda machine: machine.place_is_gone(True, DELIVERED, False),
    "gone, and back": lambda machine: machine.place_is_gone(True, DELIVERED, True),
}


@pytest.mark.parametrize("place", PLACES[:2], ids=lambda place: place.address)
@pytest.mark.parametrize("story", STORIES)
def test_the_guarantees_hold_in_this_story(story, place) -> None:
    machine = ReminderMachine()
    machine.schedule_first(place)
    STORIES[story](machine)
    check(machine.stage)
    machine.teardown()

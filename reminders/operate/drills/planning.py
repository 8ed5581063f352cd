"""kill -9 of the planner of series, in the middle of a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reminders.operate.drills.drill import Drill
from reminders.operate.drills.stack import Stack

SERIES = 5
SECONDS_AHEAD = 8.0
"""On a slow machine too they are scheduled by then: a series begins with the first occurrence that is still to come."""


def half_planned(stack: Stack) -> None:
    """The planner had made the next occurrences of due series, and had not committed."""
    names = [f"series-{number}" for number in range(SERIES)]
    stack.schedule_daily(names, datetime.now(UTC) + timedelta(seconds=SECONDS_AHEAD))
    stack.did(f"scheduled {SERIES} daily series whose first occurrence is due in {SECONDS_AHEAD:g} s")
    first = stack.find(names)
    planner = stack.start_stopping("scanner", "half-planned")
    stack.tick()
    planner.await_gap()
    planner.kill()
    stack.did("killed the scanner with -9 when it had made the next occurrences, before its commit")
    seen = {each.id for each in stack.find(names)}
    stack.check("G10", seen == {each.id for each in first}, f"nothing of it was committed: {len(seen)} occurrences")
    stack.start("worker")
    stack.scan()
    stack.did("started another scanner and a worker")
    stack.wait_until(lambda: len(stack.find(names)) == 2 * SERIES, "each series has its next occurrence")
    stack.take_over(names)
    stack.wait_for_counts({"delivered": SERIES, "pending": SERIES})
    stack.check(
        "G2", holds=True, text=f"{SERIES} first occurrences delivered, and {SERIES} planned: one for each series"
    )
    stack.check_called_once_each(first)


DRILLS = (
    Drill(
        "kill-half-planned",
        "kill -9 of the planner that had made some occurrences of its batch",
        ("G2", "G4", "G10"),
        half_planned,
    ),
)

"""Every drill, by name, in the order in which `all` runs them."""

from __future__ import annotations

from difflib import get_close_matches

from reminders.domain.errors import InvalidInput
from reminders.operate.drills import (
    cancelling,
    claims,
    messages,
    outages,
    planning,
    purging,
    scanner_gaps,
    tenants,
    ticks,
    worker_gaps,
)
from reminders.operate.drills.drill import Drill

DRILLS: dict[str, Drill] = {
    drill.name: drill
    for family in (ticks, messages, cancelling, scanner_gaps, planning, worker_gaps, tenants, claims, outages, purging)
    for drill in family.DRILLS
}


def find(name: str) -> Drill:
    """The drill of that name. Raises `InvalidInput`."""
    if name not in DRILLS:
        near = get_close_matches(name, DRILLS, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; `reminders drill --list` shows them"
        raise InvalidInput("NAME", f"{name[:40]!r} is no drill{hint}")
    return DRILLS[name]

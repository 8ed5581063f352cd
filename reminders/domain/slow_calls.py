"""Slow calls: from when on a call stops counting against the slots of its worker, and how many may be so at once."""

SLOW_AFTER = 1.0
"""Seconds after which a call under way is slow. A receiver that is well answers in far less, and a neighbour's fresh
reminder waits this long for a slot where it would wait for the whole deadline."""
SLOW_PER_SLOT = 7
"""Slow calls that a worker process carries besides its slots, for each of them. A thread that waits takes some 30 kB."""
MOST_SLOW = 512
"""Slow calls that one process carries besides its slots at most, however many slots it has."""


def slow_room(slots: int) -> int:
    """How many slow calls a process of so many slots carries besides them."""
    return min(SLOW_PER_SLOT * slots, MOST_SLOW)

"""Counting attempts in tests, at once."""

from __future__ import annotations

from integration.ledger.world import World, until
from reminders.ledger.counting import count_attempts


def counted(world: World, attempts: int) -> None:
    """Count so many. They are kept back while a transaction is open that is older, be it one of Postgres's own upkeep."""
    left = attempts

    def none_left() -> bool:
        nonlocal left
        left -= count_attempts(world.database, lag=0.0).attempts
        return left <= 0

    until(none_left, f"{attempts} attempts counted")

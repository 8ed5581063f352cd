"""Short absences of Postgres are sat out: what may be done again is tried until it works or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import DATABASE_AWAY

PATIENCE = 60.0
"""Seconds that an absence of Postgres is sat out, and that it may take to answer."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
Result = TypeVar("Result")


def patiently(attempt: Callable[[], Result], patience: float, tell: Callable[[str], None]) -> Result:
    """What `attempt` returns, tried again for `patience` seconds while Postgres is away.

    `tell` is called with one line before each wait. Raises `ServiceUnavailable` if Postgres stays away.
    """
    wait = FIRST_WAIT
    give_up_at = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except DATABASE_AWAY as error:
            remaining = give_up_at - time.monotonic()
            if remaining <= 0:
                raise ServiceUnavailable(f"Postgres has failed for {patience:g} s: {first_line(error)}") from error
            tell(f"Postgres fails, trying again for {remaining:.0f} s: {first_line(error)}")
        time.sleep(min(wait, remaining))
        wait = min(2 * wait, LONGEST_WAIT)


def first_line(error: BaseException) -> str:
    """What an error says, in a line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__

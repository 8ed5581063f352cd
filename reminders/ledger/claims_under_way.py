"""Waiting until no claim is under way that began before a word of ours was committed.

Claims mark the table `pauses` before they look (`Database.fetch_marked`). One that does not show here has committed, or will
see what was committed before.
"""

from __future__ import annotations

import time

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

LONGEST_WAIT = 10.0
"""Seconds to wait for claims that began before; each is one statement of milliseconds."""
_LOOK_EVERY = 0.01

UNDER_WAY = Statement(
    "claims_under_way",
    """
SELECT l.virtualtransaction, l.pid FROM pg_locks l
WHERE l.locktype = 'relation' AND l.relation = '{s}.pauses'::regclass AND l.mode = 'RowShareLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid <> pg_backend_pid()
""",
    {},
)


def await_claims(database: Database, what: str, seconds: float = LONGEST_WAIT) -> None:
    """Look on, without a lock that others would queue behind, until the claims that are under way now have ended.

    `what` is what was committed, for the error. Raises `ServiceUnavailable` if one has not ended within `seconds`.
    """
    end = time.monotonic() + seconds
    before: dict[str, int] = dict(database.fetch(UNDER_WAY))
    while before:
        if time.monotonic() >= end:
            processes = ", ".join(str(pid) for pid in sorted(before.values()))
            raise ServiceUnavailable(
                f"{what} is in force, but claims that began before it have not ended within {seconds:g} s "
                f"(Postgres processes {processes}).\n"
                "They may still commit: see what they wait for in pg_stat_activity, then say the same again."
            )
        time.sleep(_LOOK_EVERY)
        now: dict[str, int] = dict(database.fetch(UNDER_WAY))
        before = {transaction: pid for transaction, pid in before.items() if transaction in now}

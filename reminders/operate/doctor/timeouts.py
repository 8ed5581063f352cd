"""Time-outs that Postgres sets for our sessions, of the server, the database or the role: too short, they cut off what must get done."""

from __future__ import annotations

from reminders.operate.doctor.check import Check
from reminders.operate.doctor.server import Postgres

SHORTEST_STATEMENT = 30_000
SHORTEST_IDLE = 60_000
SHORTEST_WAIT = 1_000
"""Milliseconds that a statement or a transaction must be left, a session that does nothing, and whoever waits for a lock."""


def _statement_timeout(postgres: Postgres) -> str | None:
    timeout = int(postgres.setting("statement_timeout"))
    return f"statement_timeout is {timeout:,} ms" if 0 < timeout < SHORTEST_STATEMENT else None


def _short(postgres: Postgres, least: int, *names: str) -> str | None:
    short = {name: int(postgres.facts.settings.get(name, 0)) for name in names}
    told = [f"{name} is {timeout:,} ms" for name, timeout in short.items() if 0 < timeout < least]
    return " and ".join(told) or None


def _transaction_timeout(postgres: Postgres) -> str | None:
    return _short(postgres, SHORTEST_STATEMENT, "transaction_timeout", "idle_in_transaction_session_timeout")


def _idle_timeout(postgres: Postgres) -> str | None:
    return _short(postgres, SHORTEST_IDLE, "idle_session_timeout")


def _lock_timeout(postgres: Postgres) -> str | None:
    return _short(postgres, SHORTEST_WAIT, "lock_timeout")


TIMEOUTS: tuple[Check[Postgres], ...] = (
    Check(
        "postgres_statement_timeout",
        "warning",
        f"Statements have {SHORTEST_STATEMENT / 1000:g} s at least: a look or a purge that is cut off begins again for ever.",
        "`ALTER ROLE ... SET statement_timeout = 0` for the role of the workers.",
        _statement_timeout,
    ),
    Check(
        "postgres_transaction_timeout",
        "warning",
        f"Transactions have {SHORTEST_STATEMENT / 1000:g} s at least, also while they are idle: what is cut off begins again for ever.",
        "`ALTER ROLE ... SET transaction_timeout = 0` for the role of the workers, or the other that it names.",
        _transaction_timeout,
    ),
    Check(
        "postgres_idle_timeout",
        "warning",
        f"Sessions may be idle for {SHORTEST_IDLE / 1000:g} s: a pool would find its connections dead, and make new ones all the time.",
        "`ALTER ROLE ... SET idle_session_timeout = 0` for the role of the workers.",
        _idle_timeout,
    ),
    Check(
        "postgres_lock_timeout",
        "warning",
        f"Whoever waits for a lock has {SHORTEST_WAIT / 1000:g} s: applications' transactions and a vacuum hold some for moments.",
        "`ALTER ROLE ... SET lock_timeout = 0` for the role of the workers.",
        _lock_timeout,
    ),
)
"""Checks of the time-outs."""

"""What the ledger says when all is calm: how each reminder stands, every attempt, what is in review."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from reminders.ledger.database import Database

ENDS = frozenset({"delivered", "cancelled", "expired", "suppressed", "shadowed", "dead"})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of `delivery_attempts`. `claimed_at` is Unix time."""

    worker_pid: int
    outcome: str
    error_class: str
    claimed_at: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """`statuses` is by reference; `attempts` by delivery key and number of the claim."""

    statuses: dict[str, str]
    attempts: dict[tuple[str, int], Attempt]
    letters: dict[str, int]
    """Open dead letters, by place, kind and error class."""


def read(database: Database) -> Ledger:
    statuses = dict(_rows(database, "SELECT reference, status FROM {s}.reminders_v1"))
    attempts = {
        (key, number): Attempt(int(worker.split(":")[1]), outcome, error_class, claimed_at)
        for key, number, worker, outcome, error_class, claimed_at in _rows(
            database,
            "SELECT delivery_key, claim_number, worker, outcome, error_class, extract(epoch FROM claimed_at)::float8 "
            "FROM {s}.delivery_attempts",
        )
    }
    letters: Counter[str] = Counter()
    for reference, kind, error_class in _rows(
        database,
        "SELECT r.reference, l.kind, l.error_class FROM {s}.dead_letters l JOIN {s}.reminders r ON r.id = l.reminder_id "
        "WHERE l.state = 'open'",
    ):
        letters[f"{reference.partition('-')[0]} {kind}: {error_class}"] += 1
    return Ledger(statuses, attempts, dict(letters))


def count_live(database: Database) -> int:
    return int(_rows(database, "SELECT count(*) FROM {s}.due")[0][0])


def _rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(sql.replace("{s}", database.schema))
        return list(cursor.fetchall())

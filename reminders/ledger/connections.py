"""Connections to Postgres: who has them, and how many there may be."""

from __future__ import annotations

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

CONNECTED = Statement(
    "connected",
    """
SELECT a.pid, COALESCE(host(a.client_addr), 'this host') FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name = :name AND a.pid <> pg_backend_pid() ORDER BY a.pid
""",
    {"name": "text"},
)

LIMIT = Statement("connections_allowed", "SELECT current_setting('max_connections')::integer", {})


def connections_of(database: Database, name: str) -> list[tuple[int, str]]:
    """Process id and host of every connection to this database by what calls itself `name`, other than this one."""
    return [(pid, where) for pid, where in database.fetch(CONNECTED, name=name)]


def connections_allowed(database: Database) -> int:
    """Postgres's `max_connections`."""
    return int(database.fetch(LIMIT)[0][0])

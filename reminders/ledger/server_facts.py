"""What the Postgres server says about itself and about our sessions on it. Any role may ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

SETTINGS = (
    "server_version_num",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "default_transaction_read_only",
    "default_transaction_isolation",
    "statement_timeout",
    "transaction_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "synchronous_standby_names",
    "server_encoding",
    "autovacuum",
    "track_counts",
    "max_connections",
    "superuser_reserved_connections",
    "reserved_connections",
)
"""The settings that are looked at, as our own sessions begin with them. Some are newer than the oldest Postgres."""

_TURNS = 3
SESSION = Statement("server_session", "SELECT pg_backend_pid()", {})
CLOCK = Statement("server_clock", "SELECT extract(epoch FROM clock_timestamp())::float8", {})

# Sessions of other roles show no more than whose they are, unless ours may see everything; so a standby counts as synchronous unless it
# says otherwise. What has a role and a database is a
# client; that of a standby has no database.
SERVER = Statement(
    "server_facts",
    """
SELECT (SELECT json_object_agg(name, reset_val) FROM pg_settings WHERE name = ANY(:names)),
       pg_is_in_recovery(),
       (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL),
       (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL
          AND application_name LIKE 'reminders%'),
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_stat_replication),
       (SELECT count(*) FROM pg_stat_replication WHERE COALESCE(sync_state, 'sync') IN ('sync', 'quorum')),
       (SELECT json_build_array(extract(epoch FROM clock_timestamp() - xact_start), 'process ' || pid || ' (' || COALESCE(NULLIF(application_name, ''), 'no name') || ')')
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
          AND backend_type = 'client backend' ORDER BY xact_start LIMIT 1),
       (SELECT json_build_array(extract(epoch FROM clock_timestamp() - prepared), 'prepared transaction ' || gid)
        FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1)
""",
    {"names": "text[]"},
)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The oldest one that is open: its age in seconds, and which it is."""

    age: float
    which: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One look at the server. `settings` are Postgres's own texts; ages and `skew` are seconds.

    `skew` is by how much the server's clock is ahead of this host's; what the round trip leaves open is not in it.
    """

    settings: Mapping[str, str]
    standby: bool
    skew: float
    sessions: int
    sessions_of_ours: int
    most_sessions: int
    """That our role may have in this database, as far as limits say; those kept for superusers left out."""
    replicas: int
    synchronous_replicas: int
    oldest: OpenTransaction | None
    pooled_by_transaction: bool = False

    @property
    def version(self) -> int:
        """The major version: 18."""
        return int(self.settings["server_version_num"]) // 10_000


def read_server(database: Database, clock: Callable[[], float] = time.time) -> ServerFacts:
    """Ask the server. `clock` gives this host's Unix time in seconds. Raises `DATABASE_AWAY`."""
    with database.transaction() as connection:
        before = clock()
        ((at,),) = fetch(connection, database.schema, CLOCK)
        after = clock()
        ((settings, standby, sessions, ours, *limits, replicas, synchronous, open_, prepared),) = fetch(
            connection, database.schema, SERVER, names=list(SETTINGS)
        )
    kept = sum(int(settings.get(name, 0)) for name in ("superuser_reserved_connections", "reserved_connections"))
    least = min(
        [int(settings["max_connections"]) - kept, *(limit for limit in limits if limit is not None and limit >= 0)]
    )
    oldest = max((found for found in (open_, prepared) if found is not None), default=None)
    return ServerFacts(
        settings,
        standby,
        _apart(at, before, after),
        sessions,
        ours,
        least,
        replicas,
        synchronous,
        oldest and OpenTransaction(float(oldest[0]), oldest[1]),
    )


def is_pooled_by_transaction(one: Database, other: Database) -> bool:
    """Whether a pooler stands between us and the server that hands out its sessions for single transactions.

    Both must have a pool of one connection. While both are connected, the sessions of two connections are two, and each
    stays the same, unless a pooler gives them to whoever begins a transaction: mostly the one that was given back last, so
    that a few turns show it. Raises `DATABASE_AWAY`.
    """
    seen = [(_session(one), _session(other)) for _ in range(_TURNS)]
    mine, others = ({each[place] for each in seen} for place in (0, 1))
    return len(mine) > 1 or len(others) > 1 or bool(mine & others)


def _session(database: Database) -> int:
    with database.transaction() as connection:
        ((pid,),) = fetch(connection, database.schema, SESSION)
    return int(pid)


def _apart(at: float, before: float, after: float) -> float:
    """How far `at` lies outside of what this host's clock showed before and after."""
    return at - before if at < before else max(at - after, 0.0)

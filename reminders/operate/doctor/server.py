"""Postgres: what our guarantees ask of the server and of our sessions on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reminders.ledger.server_facts import ServerFacts
from reminders.operate.doctor.check import Check

OLDEST_POSTGRES, NEWEST_POSTGRES = 15, 18
"""Major versions that this release is made for; on both ends of them it was tested."""
SKEW = 2.0
WRONG_CLOCK = 60.0
"""Seconds between two clocks: worth a word, and too much. A tick is dropped when it is a period old by a worker's clock, and
receivers refuse signatures that are five minutes old."""
OLD_TRANSACTION = 600.0
_SO_MANY = re.compile(r"(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", re.IGNORECASE)
"""Of `synchronous_standby_names`: how many of the names commits wait for."""
MOSTLY = 0.8
"""Share of a limit that may be in use."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """What is asked about the server. `processes` are workers, of which each keeps up to `pool` connections."""

    facts: ServerFacts
    processes: int
    pool: int

    def setting(self, name: str) -> str:
        return self.facts.settings[name]


def _off(name: str) -> Check[Postgres]:
    return Check(
        f"postgres_{name}",
        "fatal",
        f"`{name}` is on: committed claims survive a crash (G3, G4).",
        f"`ALTER SYSTEM SET {name} = on`, then `SELECT pg_reload_conf()`. Where a managed Postgres keeps its promise in "
        f"another way, accept it: `REMINDERS_ACCEPT=postgres_{name}`.",
        lambda postgres: f"{name} is off" if postgres.setting(name) == "off" else None,
        at_start=True,
    )


def _version(postgres: Postgres) -> str | None:
    version = postgres.facts.version
    return f"Postgres {version}" if version < OLDEST_POSTGRES else None


def _untested(postgres: Postgres) -> str | None:
    version = postgres.facts.version
    return f"Postgres {version}" if version > NEWEST_POSTGRES else None


def _standby(postgres: Postgres) -> str | None:
    return "the server is in recovery, as a standby is" if postgres.facts.standby else None


def _read_only(postgres: Postgres) -> str | None:
    read_only = not postgres.facts.standby and postgres.setting("default_transaction_read_only") == "on"
    return "default_transaction_read_only is on" if read_only else None


def _synchronous_commit(postgres: Postgres) -> str | None:
    return "synchronous_commit is off" if postgres.setting("synchronous_commit") == "off" else None


def _not_to_standbys(postgres: Postgres) -> str | None:
    facts = postgres.facts
    if not facts.replicas or postgres.setting("synchronous_commit") == "off":
        return None
    if not facts.synchronous_replicas:
        return f"{facts.replicas} standbys follow, none synchronously"
    if postgres.setting("synchronous_commit") == "local":
        return "synchronous_commit is local: commits wait for no standby"
    return None


def _encoding(postgres: Postgres) -> str | None:
    encoding = postgres.setting("server_encoding")
    return None if encoding == "UTF8" else f"the database's encoding is {encoding}"


def _isolation(postgres: Postgres) -> str | None:
    isolation = postgres.setting("default_transaction_isolation")
    return None if isolation == "read committed" else f"default_transaction_isolation is {isolation}"


def _no_standby(postgres: Postgres) -> str | None:
    names, facts = postgres.setting("synchronous_standby_names").strip(), postgres.facts
    if not names or facts.standby or postgres.setting("synchronous_commit") in {"off", "local"}:
        return None
    number = _SO_MANY.match(names)
    wanted = int(number[1]) if number else 1
    if facts.synchronous_replicas >= wanted:
        return None
    return f"synchronous_standby_names is {names!r}: commits wait for {wanted}, {facts.synchronous_replicas} follow synchronously"


def _skew(postgres: Postgres) -> str | None:
    skew = postgres.facts.skew
    return _apart(skew) if SKEW < abs(skew) <= WRONG_CLOCK else None


def _wrong_clock(postgres: Postgres) -> str | None:
    skew = postgres.facts.skew
    return _apart(skew) if abs(skew) > WRONG_CLOCK else None


def _apart(skew: float) -> str:
    return f"Postgres's clock is {abs(skew):,.1f} s {'ahead of' if skew > 0 else 'behind'} this host's"


def _autovacuum(postgres: Postgres) -> str | None:
    off = [name for name in ("autovacuum", "track_counts") if postgres.setting(name) == "off"]
    return f"{' and '.join(off)} off" if off else None


def _connections_used(postgres: Postgres) -> str | None:
    used, most = postgres.facts.sessions, postgres.facts.most_sessions
    return f"{used} of {most} connections are in use" if used > MOSTLY * most else None


def _connections_short(postgres: Postgres) -> str | None:
    facts = postgres.facts
    others = facts.sessions - facts.sessions_of_ours
    ours = postgres.processes * postgres.pool
    if ours + others <= facts.most_sessions:
        return None
    return (
        f"{postgres.processes} worker processes may open {postgres.pool} connections each, others have {others}; "
        f"our role may have {facts.most_sessions} in this database"
    )


def _old_transaction(postgres: Postgres) -> str | None:
    oldest = postgres.facts.oldest
    if oldest is None or oldest.age <= OLD_TRANSACTION:
        return None
    return f"{oldest.which} has had a transaction open for {oldest.age:,.0f} s"


def _pooled(postgres: Postgres) -> str | None:
    return "sessions are handed out for single transactions" if postgres.facts.pooled_by_transaction else None


SERVER: tuple[Check[Postgres], ...] = (
    Check(
        "postgres_too_old",
        "fatal",
        f"Postgres is version {OLDEST_POSTGRES} or newer.",
        "Upgrade the server.",
        _version,
        at_start=True,
    ),
    Check(
        "postgres_untested",
        "warning",
        f"Postgres is not newer than {NEWEST_POSTGRES}, the newest version that this release was tested with.",
        "Try it on staging first (`reminders drill`), or install a newer release of reminders.",
        _untested,
    ),
    Check(
        "postgres_standby",
        "fatal",
        "`DATABASE_URL` leads to the primary: a standby takes no claim.",
        "Point `DATABASE_URL` at the primary, or at a name that follows a failover.",
        _standby,
        at_start=True,
    ),
    Check(
        "postgres_read_only",
        "fatal",
        "Transactions may write.",
        "Take it back: `ALTER ROLE ... RESET default_transaction_read_only`, or the same for the database or the system.",
        _read_only,
        at_start=True,
    ),
    _off("fsync"),
    _off("full_page_writes"),
    Check(
        "postgres_synchronous_commit",
        "fatal",
        "A commit is on disk when it returns: a claim that a crash takes back lets a second call follow (G3, G4).",
        "`ALTER ROLE ... RESET synchronous_commit`, or the same for the database or the system.",
        _synchronous_commit,
        at_start=True,
    ),
    Check(
        "postgres_asynchronous_standby",
        "note",
        "Claims survive a failover: commits wait for a standby.",
        "Name it in `synchronous_standby_names`; or never fail over to a standby that lags without going through what was due since.",
        _not_to_standbys,
    ),
    Check(
        "postgres_standby_away",
        "fatal",
        "As many standbys follow as commits wait for: without them no commit returns, and nothing is claimed.",
        "Start the standby; or, if it is gone for good, take it out of `synchronous_standby_names`, then `SELECT pg_reload_conf()`.",
        _no_standby,
    ),
    Check(
        "postgres_encoding",
        "fatal",
        "The database's encoding is UTF8: names, references and templates are any text.",
        "Make a database with `ENCODING 'UTF8'` and move the ledger there.",
        _encoding,
        at_start=True,
    ),
    Check(
        "postgres_isolation",
        "warning",
        "Sessions are `read committed` by default, as every statement of ours expects.",
        "`ALTER ROLE ... RESET default_transaction_isolation`, or the same for the database or the system.",
        _isolation,
    ),
    Check(
        "clock_skew",
        "warning",
        f"The clocks of Postgres and of this host differ by {SKEW:g} s at most.",
        "Have both hosts keep time (chrony, systemd-timesyncd).",
        _skew,
    ),
    Check(
        "clock_wrong",
        "fatal",
        f"They never differ by more than {WRONG_CLOCK:g} s: ticks would be dropped, and receivers refuse signatures.",
        "Set the clock that is wrong, and have both hosts keep time (chrony, systemd-timesyncd).",
        _wrong_clock,
        at_start=True,
    ),
    Check(
        "autovacuum_off",
        "warning",
        "Autovacuum runs: every move of a reminder leaves a dead row.",
        "`ALTER SYSTEM SET autovacuum = on` and `track_counts = on`, then `SELECT pg_reload_conf()`.",
        _autovacuum,
    ),
    Check(
        "connections_used",
        "warning",
        f"At most {MOSTLY:.0%} of the connections that our role may have are in use.",
        "Close what nobody needs, raise the limit, or put pgbouncer in between.",
        _connections_used,
    ),
    Check(
        "connections_short",
        "warning",
        "There are enough connections for all workers at once.",
        "Run fewer processes (`REMINDERS_PROCESSES`) or threads, raise the limit, or put pgbouncer in between.",
        _connections_short,
    ),
    Check(
        "old_transaction",
        "warning",
        f"No transaction stays open for {OLD_TRANSACTION:g} s: dead rows pile up behind it, and every look gets slower.",
        "Find whose it is and end it: `SELECT pg_terminate_backend(...)`, or `ROLLBACK PREPARED ...`.",
        _old_transaction,
    ),
    Check(
        "transaction_pooling",
        "note",
        "A pooler that hands out sessions by transaction is known to be there: it works, without prepared statements.",
        "Nothing; or point `DATABASE_URL` of the workers at Postgres itself: then no statement is planned twice.",
        _pooled,
    ),
)
"""Checks of the server."""

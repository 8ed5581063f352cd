"""The audit: every invariant that a ledger can show, checked over one snapshot of a live database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from reminders.domain.errors import InvalidInput
from reminders.ledger.audit_attempts import ATTEMPTS
from reminders.ledger.audit_check import GRACE, Check
from reminders.ledger.audit_consent import CONSENT
from reminders.ledger.audit_endings import ENDINGS
from reminders.ledger.audit_erasures import ERASURES
from reminders.ledger.audit_holds import HOLDS
from reminders.ledger.audit_limits import LIMITS
from reminders.ledger.audit_live import LIVE
from reminders.ledger.audit_places import PLACES
from reminders.ledger.audit_quarantines import QUARANTINES
from reminders.ledger.audit_secrets import SECRETS
from reminders.ledger.audit_series import SERIES
from reminders.ledger.audit_settlements import SETTLEMENTS
from reminders.ledger.audit_slo import SLO
from reminders.ledger.audit_templates import TEMPLATES
from reminders.ledger.audit_tenants import TENANTS
from reminders.ledger.audit_turns import TURN_LOST, lost_turns
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database, Row

CHECKS: tuple[Check, ...] = (
    *LIVE,
    *HOLDS,
    *LIMITS,
    *ATTEMPTS,
    *ENDINGS,
    *PLACES,
    *SECRETS,
    *TEMPLATES,
    *CONSENT,
    *SERIES,
    *SETTLEMENTS,
    *TENANTS,
    *ERASURES,
    *SLO,
    *QUARANTINES,
)

# Read only, so that it may run on a replica, and all checks see one moment. Every time is Postgres's own. Compiling a
# query that reads a large table once costs more than it saves.
_SNAPSHOT = """SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"""


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """What the settings promise; counts and seconds. They must be those of the processes that wrote the ledger."""

    max_attempts: int
    max_wait: float
    dedup_window: float
    in_flight: int
    keys: tuple[str, ...] = ()
    """The fingerprints of `REMINDERS_KEYS`."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that breaks an invariant. `detail` says how, with ids, states and times only."""

    reminder_id: str | None
    delivery_key: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check came to: how many violations there are, and the first of them."""

    check: Check
    count: int
    shown: list[Violation]
    seconds: float


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit came to. `at` is the snapshot's time by the ledger's clock; without `since` all was checked."""

    at: datetime
    since: datetime | None
    results: list[Checked]

    @property
    def violations(self) -> int:
        return sum(result.count for result in self.results)


def audit(
    database: Database, policy: AuditPolicy, *, since: datetime | timedelta | None, limit: int, turns: bool = False
) -> Audit:
    """Run every check, on one snapshot; show up to `limit` violations of each. With `turns`, also look for lost ones.

    `since`, an instant or an age, bounds what has long ended, as each check's scope says. Raises `InvalidInput` if it
    lies in the future. Nothing is locked or changed, but for as long as it takes, vacuum keeps what it sees.
    """
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone() or ()
        start = _start(since, now)
        given = {
            "since": start or "-infinity",
            "now": now,
            "stale": now - timedelta(seconds=GRACE),
            "max_attempts": policy.max_attempts,
            "max_wait": policy.max_wait,
            "window": policy.dedup_window,
            "in_flight": policy.in_flight,
            "keys": list(policy.keys),
            "limit": limit,
        }
        run = partial(fetch, connection, database.schema)
        results = [_run(run, check, given, limit) for check in CHECKS]
        if turns:
            results.append(_look_for_lost_turns(lost_turns(connection, database.schema, since=start, now=now), limit))
        return Audit(now.astimezone(UTC), start, results)


def _start(since: datetime | timedelta | None, now: datetime) -> datetime | None:
    try:
        start = now - since if isinstance(since, timedelta) else since
    except OverflowError:
        return None
    if start is not None and start > now:
        raise InvalidInput("since", "is in the future, by the ledger's clock")
    return start and start.astimezone(UTC)


def _look_for_lost_turns(lost: Iterator[tuple[None, None, str]], limit: int) -> Checked:
    started = time.monotonic()
    found = [Violation(*row) for row in lost]
    return Checked(TURN_LOST, len(found), found[:limit], time.monotonic() - started)


def _run(run: Callable[..., list[Row]], check: Check, given: dict[str, Any], limit: int) -> Checked:
    started = time.monotonic()
    rows = run(check.statement(), **given)
    if check.judge is None:
        shown, count = [Violation(*row[:3]) for row in rows], rows[0][3] if rows else 0
    else:
        judged = [Violation(row[0], row[1], fault) for row in rows if (fault := check.judge(row)) is not None]
        shown, count = judged[:limit], len(judged)
    return Checked(check, count, shown, time.monotonic() - started)

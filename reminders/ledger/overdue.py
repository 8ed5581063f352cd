"""What is late, why, whom it concerns and whether it grows: one look at the ledger, of a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.late_reasons import OUR_FAULTS
from reminders.domain.slow_calls import SLOW_AFTER
from reminders.ledger.bounded_look import looking
from reminders.ledger.database import Database
from reminders.ledger.dispatchers import AWAY_AFTER
from reminders.ledger.late_rows import LATE_OF_ALL, LATE_OF_TENANT, LATE_TYPES
from reminders.ledger.statement import Statement

MOST = 10_000
"""Reminders of each kind of waiting that are looked at; a second or so in all on two busy cores. Beyond it, counts are lower bounds."""
WINDOW = 300.0
"""Seconds over which the trend is told, where not more than `MOST` attempts were made meanwhile."""
PUT_OFF = 30.0
"""Seconds for which a reminder is put off at most where there is no room for it, or its destination times out."""

_TOTALS = """(SELECT now FROM t), (SELECT extract(epoch FROM now - at)::float8 FROM t, began),
       (SELECT is_cut FROM cut), (SELECT count(*) FROM late), (SELECT count(DISTINCT (tenant_id, user_id)) FROM late),
       (SELECT extract(epoch FROM (SELECT now FROM t) - min(since))::float8 FROM late),
       (SELECT count(*) FROM late WHERE since > (SELECT at FROM began)), (SELECT number FROM fresh), (SELECT number FROM went),
       (SELECT json_object_agg(why, n) FROM (SELECT why, count(*) AS n FROM late GROUP BY why) y),
       (SELECT count(*) FROM (SELECT reminder_id FROM {s}.dead_letters WHERE state = 'open' ORDER BY opened_at LIMIT :most) l
        WHERE :tenant IS NULL OR (SELECT r.tenant_id FROM {s}.reminders r WHERE r.id = l.reminder_id) = :tenant)"""

# Where it is about a destination, each is a group of its own; elsewhere its destinations are counted.
_GROUPS = """(SELECT json_agg(json_build_array(tenant_id, channel, why, of, hold, destination, n, users, places, age, came, first)) FROM (
           SELECT tenant_id, channel, why, of, hold, destination, count(*) AS n, count(DISTINCT user_id) AS users,
                  count(DISTINCT destination_id) AS places,
                  extract(epoch FROM (SELECT now FROM t) - min(since))::float8 AS age,
                  count(*) FILTER (WHERE since > (SELECT at FROM began)) AS came, (array_agg(id ORDER BY since, id))[1] AS first
           FROM (SELECT *, CASE WHEN why = ANY(:of_places) THEN destination_id END AS destination FROM late) l
           GROUP BY tenant_id, channel, why, of, hold, destination
           ORDER BY n DESC, age DESC, tenant_id, channel, why, destination LIMIT :shown) g)"""

_USERS = """(SELECT json_agg(json_build_array(tenant_id, user_id, n, age, whys, first)) FROM (
           SELECT tenant_id, user_id, count(*) AS n, extract(epoch FROM (SELECT now FROM t) - min(since))::float8 AS age,
                  json_agg(DISTINCT why) AS whys, (array_agg(id ORDER BY since, id))[1] AS first
           FROM late GROUP BY tenant_id, user_id ORDER BY n DESC, age DESC, tenant_id, user_id LIMIT :shown) u)"""

_OF_PLACES = ("calling", "behind_slow", "times_out", "retry", "breaker", "asked_to_wait")


def _statement(name: str, rows: str, listed: str) -> Statement:
    types = {**LATE_TYPES, "shown": "integer", **({"of_places": "text[]"} if ":of_places" in listed else {})}
    used = {each: kind for each, kind in types.items() if f":{each}" in rows + listed}
    return Statement(name, f"{rows}\nSELECT {_TOTALS},\n       {listed}", used)


GROUPS_OF_ALL = _statement("late_groups", LATE_OF_ALL, _GROUPS)
GROUPS_OF_TENANT = _statement("late_groups_of_tenant", LATE_OF_TENANT, _GROUPS)
USERS_OF_ALL = _statement("late_users", LATE_OF_ALL, _USERS)
USERS_OF_TENANT = _statement("late_users_of_tenant", LATE_OF_TENANT, _USERS)


@dataclass(frozen=True, slots=True)
class LateGroup:
    """Reminders of one tenant and channel that are late for one reason. Ages are seconds since the due time."""

    tenant_id: str
    channel: str
    why: str
    """A key of `LATE_REASONS`."""
    of: str | None
    """Who has paused it and why, what the cap is of, why its place is held, or the error class of the last attempt; None
    where the reason says all."""
    hold_id: UUID | None
    """The pause, drain or cap; None where it is none."""
    destination_id: UUID | None
    """Where the reason is about a destination; None elsewhere."""
    reminders: int
    users: int
    destinations: int
    oldest_age: float
    came: int
    """Of them, those that have come due within the trend's time."""
    oldest: UUID
    """The reminder that has been due for longest."""


@dataclass(frozen=True, slots=True)
class LateUser:
    """A user with reminders that are late."""

    tenant_id: str
    user_id: str
    reminders: int
    oldest_age: float
    whys: list[str]
    oldest: UUID


@dataclass(frozen=True, slots=True)
class Late:
    """What one look has shown. `at_least` says that counts are lower bounds: more is late than is looked at."""

    at: datetime
    at_least: bool
    reminders: int
    users: int
    oldest_age: float
    reasons: dict[str, int]
    """Reminders by why they are late."""
    window: float
    """Seconds over which the trend is told."""
    came: int
    """Late reminders that have come due meanwhile; about as many where counts are lower bounds."""
    went: int
    """Reminders that were late when it began, and have ended since by an attempt."""
    letters: int
    """Dead letters that are open: what was given up is not late any more."""
    groups: list[LateGroup]
    listed_users: list[LateUser]

    @property
    def before(self) -> int | None:
        """How many were late when the trend began; None where that cannot be told."""
        return None if self.at_least else self.reminders - self.came + self.went


def late(
    database: Database,
    *,
    dispatcher: str,
    scan_every: float,
    lease: float,
    tenant: str | None = None,
    by_user: bool = False,
    shown: int = 20,
    most: int = MOST,
) -> Late:
    """Look once, at what is late of a tenant or of all: groups, or with `by_user` users, the largest first.

    `scan_every` and `lease` are the settings of these names, `dispatcher` whose a tenant is of which nobody has said so.
    A redrive or drain that is spread over more than the next minute shows what of it has its turn by then. Raises what
    `Database` raises, also for a look that takes too long.
    """
    if by_user:
        statement = USERS_OF_ALL if tenant is None else USERS_OF_TENANT
    else:
        statement = GROUPS_OF_ALL if tenant is None else GROUPS_OF_TENANT
    given: dict[str, Any] = {
        "most": most, "tenant": tenant, "soon": max(lease, PUT_OFF), "window": WINDOW, "slow": SLOW_AFTER,
        "ours": list(OUR_FAULTS), "dispatcher": dispatcher, "away": AWAY_AFTER * scan_every, "shown": shown,
        "of_places": list(_OF_PLACES),
    }  # fmt: skip
    with looking(database) as ask:
        ((at, window, cut, reminders, users, age, came, fresh, went, reasons, letters, rows),) = ask(statement, **given)
    listed = rows or []
    return Late(
        at.astimezone(UTC),
        cut,
        reminders,
        users,
        age or 0.0,
        dict(sorted((reasons or {}).items(), key=lambda each: -each[1])),
        window,
        fresh if cut else came,
        went,
        letters,
        [] if by_user else [_group(row) for row in listed],
        [_user(row) for row in listed] if by_user else [],
    )


def _group(row: list[Any]) -> LateGroup:
    columns: list[Any] = list(row)
    columns[4:6] = [None if each is None else UUID(each) for each in columns[4:6]]
    columns[-1] = UUID(columns[-1])
    return LateGroup(*columns)


def _user(row: list[Any]) -> LateUser:
    columns: list[Any] = [*row[:-1], UUID(row[-1])]
    return LateUser(*columns)

"""Changing what is true of tenants: their mode, and whose they are. One or many, in one transaction, and on record.

Each returns once no claim that began before can still commit under what was true then, and says how many are open.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.identity import uuid7
from reminders.domain.tenants import Mode, read_dispatcher
from reminders.ledger.caller import fetch
from reminders.ledger.claims_under_way import LONGEST_WAIT, await_claims
from reminders.ledger.database import Database, Row
from reminders.ledger.releasing import AHEAD
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement
from reminders.ledger.tenant_registry import ALONE, REGISTER, Dispatcher
from reminders.ledger.turn_moves import wake_uncalled

_BEGIN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'"
_SAID = {"reason": "text", "actor": "text", "host": "text"}

MEMBERS = Statement(
    "cohort_members",
    "SELECT tenant_id FROM {s}.cohort_members WHERE cohort = :cohort ORDER BY tenant_id FOR KEY SHARE",
    {"cohort": "text"},
)

# In the order of names: two commands about the same tenants wait for each other.
LOCK = Statement(
    "lock_tenants",
    "SELECT 1 FROM {s}.tenant_policies WHERE tenant_id = ANY(:tenants) AND channel = '' ORDER BY tenant_id FOR UPDATE",
    {"tenants": "text[]"},
)

# What is off is held by a pause of its own, which nobody resumes by itself: all that is true of what a pause holds is true of
# what is off.
SET_MODE = Statement(
    "tenant_set_mode",
    """
WITH found AS MATERIALIZED (
    SELECT p.tenant_id, p.mode, p.dispatcher, p.epoch, wanted.id
    FROM unnest(:tenants, :ids) AS wanted (tenant_id, id)
    JOIN {s}.tenant_policies p ON p.tenant_id = wanted.tenant_id AND p.channel = ''
    WHERE p.mode <> :mode
), changed AS (
    UPDATE {s}.tenant_policies p SET mode = :mode FROM found WHERE p.tenant_id = found.tenant_id AND p.channel = ''
), held AS (
    INSERT INTO {s}.pauses (id, tenant_id, reason, actor, host, by_mode)
    SELECT id, tenant_id, :reason, :actor, :host, true FROM found WHERE :mode = 'off'
), let_go AS (
    UPDATE {s}.pauses z
    SET ended_at = clock_timestamp(), ended_by = :actor, ended_host = :host, ended_reason = :reason, rate = :rate
    FROM found WHERE found.mode = 'off' AND z.by_mode AND z.ended_at IS NULL AND z.tenant_id = found.tenant_id
), noted AS (
    INSERT INTO {s}.tenant_changes (id, tenant_id, mode_before, mode, dispatcher_before, dispatcher, epoch, cohort, reason, actor, host)
    SELECT id, tenant_id, mode, :mode, dispatcher, dispatcher, epoch, :cohort, :reason, :actor, :host FROM found
)
SELECT tenant_id, mode FROM found ORDER BY tenant_id
""",
    {**_SAID, "tenants": "text[]", "ids": "uuid[]", "mode": "text", "rate": "float8", "cohort": "text"},
)

# Said again while what was off is still being let go, it changes the rate, as `resume` does; so does turning on again what was off
# once more before all of it had gone: the first pause lets go before the second.
CHANGE_RATE = Statement(
    "tenant_change_rate",
    f"""
UPDATE {{s}}.pauses z
SET rate = :rate, next_at = CASE WHEN z.next_at IS NOT NULL THEN LEAST(z.next_at, clock_timestamp() + interval '{AHEAD} seconds') END
WHERE z.by_mode AND z.ended_at IS NOT NULL AND z.tenant_id = ANY(:tenants) AND EXISTS (SELECT 1 FROM {{s}}.due d WHERE d.hold_id = z.id)
RETURNING 1
""",
    {"tenants": "text[]", "rate": "float8"},
)

EVERY_TENANT = Statement(
    "every_tenant",
    "SELECT tenant_id FROM {s}.tenant_policies WHERE channel = '' AND mode IS NOT NULL ORDER BY tenant_id",
    {},
)

# New tenants follow with all the others.
NEW_TENANTS_TO = Statement(
    "new_tenants_to",
    """
INSERT INTO {s}.new_tenants AS w (dispatcher) VALUES (:to) ON CONFLICT (sole) DO UPDATE SET dispatcher = EXCLUDED.dispatcher
RETURNING 1
""",
    {"to": "text"},
)

HAND_OVER = Statement(
    "tenant_hand_over",
    """
WITH found AS MATERIALIZED (
    SELECT p.tenant_id, p.mode, p.dispatcher, COALESCE(p.epoch, 0) + 1 AS epoch, wanted.id
    FROM unnest(:tenants, :ids) AS wanted (tenant_id, id)
    JOIN {s}.tenant_policies p ON p.tenant_id = wanted.tenant_id AND p.channel = ''
    WHERE p.dispatcher <> :to
), changed AS (
    UPDATE {s}.tenant_policies p SET dispatcher = :to, epoch = found.epoch
    FROM found WHERE p.tenant_id = found.tenant_id AND p.channel = ''
), noted AS (
    INSERT INTO {s}.tenant_changes (id, tenant_id, mode_before, mode, dispatcher_before, dispatcher, epoch, cohort, reason, actor, host)
    SELECT id, tenant_id, mode, mode, dispatcher, :to, epoch, :cohort, :reason, :actor, :host FROM found
)
SELECT tenant_id, dispatcher FROM found ORDER BY tenant_id
""",
    {**_SAID, "tenants": "text[]", "ids": "uuid[]", "to": "text", "cohort": "text"},
)

# What was leased or published before is nobody's to claim any more: it is due at once, for the new side. What is on its way has
# an index, a lease ends within the hour. Leases in lanes of destinations' own end by themselves.
WAKE_HANDED_OVER = Statement(
    "wake_handed_over",
    """
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now), found AS MATERIALIZED (
    SELECT d.id, d.lane, d.epoch FROM {s}.due d WHERE d.status = 'published'
    UNION ALL
    SELECT d.id, d.lane, d.epoch FROM unnest(:tenants) AS wanted (tenant_id)
    CROSS JOIN LATERAL (
        SELECT d.id, d.lane, d.epoch FROM {s}.due d
        WHERE d.lane = wanted.tenant_id AND d.status = 'leased'
          AND d.wake_at > (SELECT now FROM t) AND d.wake_at <= (SELECT now FROM t) + interval '1 hour'
    ) d
), mine AS MATERIALIZED (
    SELECT d.id FROM {s}.due d
    WHERE d.id = ANY(ARRAY(
        SELECT f.id FROM found f
        JOIN {s}.tenant_policies q ON q.tenant_id = split_part(f.lane, chr(31), 1) AND q.channel = ''
        WHERE q.tenant_id = ANY(:tenants) AND f.epoch IS DISTINCT FROM q.epoch
        LIMIT :limit))
      AND d.status IN ('leased', 'published')
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {s}.due d SET status = 'pending', wake_at = LEAST((SELECT now FROM t), d.give_up_at) FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"tenants": "text[]", "limit": "integer"},
)

OPEN_CLAIMS = Statement(
    "open_claims_of_tenants",
    """
SELECT count(*), max(d.wake_at) FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
WHERE d.status = 'sending' AND r.tenant_id = ANY(:tenants)
""",
    {"tenants": "text[]"},
)

WAKE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tenants a change is about: one by name, those of a cohort, or with neither all that the ledger knows."""

    tenant: str | None = None
    cohort: str | None = None

    def words(self) -> str:
        """`tenant shop`, `cohort early`, or `all tenants`."""
        named = {"tenant": self.tenant, "cohort": self.cohort}
        return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None) or "all tenants"


@dataclass(frozen=True, slots=True)
class Moved:
    """What a change came to: of `tenants`, which are `changed`, and from what. `open_claims` began before it, and may still end.

    `claims_end_at` is when the last of them ends at the latest, UTC; `woken` counts messages that are nobody's any more.
    """

    tenants: list[str]
    changed: dict[str, str]
    open_claims: int
    claims_end_at: datetime | None
    woken: int = 0

    def fields(self) -> dict[str, Any]:
        """What it came to, as JSON shows it."""
        until = None if self.claims_end_at is None else instant_text(self.claims_end_at)
        return {
            "tenants": self.tenants, "changed": self.changed, "open_claims": self.open_claims, "claims_end_at": until,
        }  # fmt: skip


def set_mode(
    database: Database,
    wanted: Wanted,
    mode: Mode,
    *,
    actor: str,
    reason: str,
    rate: float | None = None,
    dispatcher: Dispatcher = ALONE,
    wait: float = LONGEST_WAIT,
) -> Moved:
    """Turn tenants off, to shadow or live, all of them or none. What was off is let go by the scan, at `rate` per second if given.

    `dispatcher` says whose a tenant is that nobody has met before. Raises `InvalidInput` without `actor` and `reason`,
    `NotFound` for a cohort without members, and `ServiceUnavailable` if a claim that began before has not ended within `wait`
    seconds: the mode is in force all the same.
    """
    said = _said(actor, reason)
    with database.transaction() as connection:
        run = _begun(database, connection)
        tenants = _tenants(run, wanted)
        run(REGISTER, **dispatcher.given(), **_ids(tenants), **{**said, "reason": "REMINDERS_NEW_TENANTS"})
        run(LOCK, tenants=tenants)
        rows = run(SET_MODE, **_ids(tenants), **said, mode=mode, rate=rate, cohort=wanted.cohort)
        let_go = tenants if rate is not None else [tenant for tenant, before in rows if before == "off"]
        run(CHANGE_RATE, tenants=let_go, rate=rate)
    # Crash here: the mode is in force, and shown. Said again, it is waited for once more.
    if mode != "live":
        await_claims(database, f"Mode {mode} of {wanted.words()}", wait)
        wake_uncalled(database, tenants)
    return _moved(database, tenants, rows)


def hand_over(
    database: Database,
    wanted: Wanted,
    to: str,
    *,
    actor: str,
    reason: str,
    dispatcher: Dispatcher = ALONE,
    wait: float = LONGEST_WAIT,
) -> Moved:
    """Give tenants to dispatcher `to`, all of them or none; return once the old side can claim nothing of them any more.

    Of all tenants, new ones go to it too from now on. Raises as `set_mode` does; said again, it completes what was cut off.
    """
    said = _said(actor, reason)
    try:
        to = read_dispatcher(to)
    except ValueError as error:
        raise InvalidInput("to", str(error)) from None
    with database.transaction() as connection:
        run = _begun(database, connection)
        if wanted == Wanted():
            run(NEW_TENANTS_TO, to=to)
        tenants = _tenants(run, wanted)
        run(REGISTER, **dispatcher.given(), **_ids(tenants), **{**said, "reason": "REMINDERS_NEW_TENANTS"})
        run(LOCK, tenants=tenants)
        rows = run(HAND_OVER, **_ids(tenants), **said, to=to, cohort=wanted.cohort)
    # Crash here: they are the new side's, and what the old side has on its way comes back at its deadline. Said again, all
    # that follows is done.
    await_claims(database, f"The handover of {wanted.words()}", wait)
    woken = 0
    while found := len(database.fetch_in_loops(WAKE_HANDED_OVER, tenants=tenants, limit=WAKE_BATCH)):
        # Crash here: some of them are due at once, the others at their deadline.
        woken += found
    return _moved(database, tenants, rows, woken)


def _tenants(run: Callable[..., list[Row]], wanted: Wanted) -> list[str]:
    if wanted.tenant is not None:
        return [wanted.tenant]
    if wanted.cohort is None:
        return [name for (name,) in run(EVERY_TENANT)]
    found = [name for (name,) in run(MEMBERS, cohort=wanted.cohort)]
    if not found:
        raise NotFound(f"cohort {wanted.cohort} has no tenants; `reminders tenant cohort list` shows those that have")
    return found


def _moved(database: Database, tenants: list[str], rows: Sequence[Row], woken: int = 0) -> Moved:
    ((open_claims, until),) = database.fetch(OPEN_CLAIMS, tenants=tenants)
    return Moved(tenants, dict(rows), open_claims, until and until.astimezone(UTC), woken)


def _said(actor: str, reason: str) -> dict[str, Any]:
    return {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }


def _ids(tenants: Sequence[str]) -> dict[str, Any]:
    return {"tenants": list(tenants), "ids": [str(uuid7()) for _ in tenants]}


def _begun(database: Database, connection: Any) -> Callable[..., list[Row]]:
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN)
    return partial(fetch, connection, database.schema)

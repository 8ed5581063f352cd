"""Walking a table by its primary key, a page at a time, and removing what has been over for long enough.

A page is read without a lock. What is removed is locked, looked at again, and passed over if somebody holds it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.retention_policies import bounded
from reminders.ledger.retention_rules import GOES, Goes
from reminders.ledger.statement import Statement

PAGE = 2000
"""Rows that are looked at in one round trip."""
REMOVED = 200
"""Rows that are removed in one transaction at most."""
_GIVEN = {"now": "timestamptz", "keep": "float8", "least": "float8"}


@dataclass(frozen=True, slots=True)
class Page:
    """What a page has that is over (`candidates`, as JSON lists of the key's parts), and where the next one begins; None: nowhere."""

    candidates: list[str]
    last: str | None


def _over(rule: Goes) -> str:
    """SQL: whether `x` has been over for as long as its tenant, or else the installation, has it kept."""
    kept = ":keep"
    if rule.tenant is not None:
        of = f"SELECT {bounded('p.keep')} FROM {{s}}.retention_policies p WHERE p.tenant_id = {rule.tenant} AND p.about ="
        kept = f"COALESCE(({of} '{rule.about}'), :keep)"
        if rule.about == "evidence":
            of_reminders = f"COALESCE(({of} 'reminders'), :least)"
            kept = f"GREATEST({kept}, {of_reminders})"
            if rule.sooner is not None:
                kept = f"CASE WHEN {rule.sooner} THEN {of_reminders} ELSE {kept} END"
    return f"COALESCE(({rule.since}) < COALESCE(:now, clock_timestamp()) - make_interval(secs => {kept}), false)"


def _types(rule: Goes, **more: str) -> dict[str, str]:
    least = rule.tenant is not None and rule.about == "evidence"
    return {name: kind for name, kind in {**_GIVEN, **more}.items() if name != "least" or least}


def _look(table: str, rule: Goes) -> Statement:
    columns = ", ".join(f"x.{name}" for name, _ in rule.key)
    given = ", ".join(f"(:after::json ->> {place})::{kind}" for place, (_, kind) in enumerate(rule.key))
    as_json = f"json_build_array({', '.join(f'{name}::text' for name, _ in rule.key)})::text"
    return Statement(
        f"walk_{table}",
        f"""
WITH page AS MATERIALIZED (
    SELECT {columns}, {_over(rule)} AS over FROM {{s}}.{table} x
    WHERE :after IS NULL OR ({columns}) > ({given})
    ORDER BY {columns} LIMIT :size
)
SELECT ARRAY(SELECT {as_json} FROM page WHERE over),
       (SELECT {as_json} FROM page ORDER BY {columns.replace("x.", "")} DESC LIMIT 1), (SELECT count(*) = :size FROM page)
""",
        _types(rule, after="text", size="integer"),
    )


def _remove(table: str, rule: Goes) -> Statement:
    wanted = ", ".join(f"(w.key ->> {place})::{kind}" for place, (_, kind) in enumerate(rule.key))
    columns = ", ".join(f"x.{name}" for name, _ in rule.key)
    held = ", ".join(f"h.{name}" for name, _ in rule.key)
    act = f"DELETE FROM {{s}}.{table} x USING held h WHERE" if rule.blank is None else (
        f"UPDATE {{s}}.{table} x SET {rule.blank} FROM held h WHERE"
    )  # fmt: skip
    return Statement(
        f"remove_{table}",
        f"""
WITH held AS MATERIALIZED (
    SELECT {columns} FROM {{s}}.{table} x
    WHERE ({columns}) IN (SELECT {wanted} FROM json_array_elements(:keys) AS w (key)) AND {_over(rule)} AND NOT ({rule.unless})
    FOR UPDATE SKIP LOCKED
), gone AS (
    {act} ({columns}) = ({held}) RETURNING 1
)
SELECT count(*) FROM gone
""",
        _types(rule, keys="json"),
    )


def _count(table: str, rule: Goes) -> Statement:
    wanted = ", ".join(f"(w.key ->> {place})::{kind}" for place, (_, kind) in enumerate(rule.key))
    columns = ", ".join(f"x.{name}" for name, _ in rule.key)
    return Statement(
        f"count_{table}",
        f"""
SELECT count(*) FROM {{s}}.{table} x
WHERE ({columns}) IN (SELECT {wanted} FROM json_array_elements(:keys) AS w (key)) AND {_over(rule)} AND NOT ({rule.unless})
""",
        _types(rule, keys="json"),
    )


LOOK = {table: _look(table, rule) for table, rule in GOES.items()}
REMOVE = {table: _remove(table, rule) for table, rule in GOES.items()}
COUNT = {table: _count(table, rule) for table, rule in GOES.items()}


def look(database: Database, table: str, keeps: dict[str, float], after: str | None, now: datetime | None) -> Page:
    """The next page of a table: what of it is over for long enough, save for what other tables say."""
    given = _given(table, keeps, now)
    with database.transaction() as connection:
        ((candidates, last, more),) = fetch(connection, database.schema, LOOK[table], **given, after=after, size=PAGE)
    return Page(candidates, last if more else None)


def remove(database: Database, table: str, keeps: dict[str, float], keys: list[str], now: datetime | None) -> int:
    """Remove of these what is still over and nothing needs, in one short transaction; how many that were."""
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off; SET LOCAL lock_timeout = 1000"
            )
        given = _given(table, keeps, now)
        ((gone,),) = fetch(
            connection, database.schema, REMOVE[table], **given, keys=json.dumps([json.loads(each) for each in keys])
        )
        # Crash here, or before: they are there, and found again.
    return gone  # type: ignore[no-any-return]


def removable(database: Database, table: str, keeps: dict[str, float], keys: list[str], now: datetime | None) -> int:
    """How many of these `remove` would remove as things are, if nobody holds one."""
    given = _given(table, keeps, now)
    with database.transaction() as connection:
        ((number,),) = fetch(
            connection, database.schema, COUNT[table], **given, keys=json.dumps([json.loads(each) for each in keys])
        )
    return number  # type: ignore[no-any-return]


def _given(table: str, keeps: dict[str, float], now: datetime | None) -> dict[str, object]:
    return {"now": now, "keep": keeps[GOES[table].about], "least": keeps["reminders"]}

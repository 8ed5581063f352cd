"""Erasures on record: whom each is about, under which name, what it has touched; and the transactions that it is made of."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database, Row
from reminders.ledger.statement import Statement

LOCK_TIMEOUT_MS = 5000
"""How long one step waits for rows that an application holds."""
Run = Callable[..., list[Row]]
"""Runs a statement inside some transaction: `run(statement, **parameters)`."""
WHO = {"tenant": "text", "user": "text"}
OF = "tenant_id = :tenant AND user_id = :user"
WORDS = "CASE WHEN x.{0} <> '' THEN 'erased' ELSE x.{0} END"
"""SQL: what becomes of the words in a column of `x`."""

MAKE_KEY = Statement(
    "erasure_make_key",
    """
INSERT INTO {s}.erasure_key (key)
VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
ON CONFLICT DO NOTHING RETURNING 1
""",
    {},
)

BEGIN = Statement(
    "erasure_begin",
    """
WITH named AS (SELECT {s}.erased_user(:tenant, :user) AS token), made AS (
    INSERT INTO {s}.erasures AS e (id, tenant_id, user_token, reason, actor, host)
    SELECT :id, :tenant, token, :reason, :actor, :host FROM named
    ON CONFLICT (tenant_id, user_token) WHERE finished_at IS NULL DO UPDATE SET host = e.host
    RETURNING e.id, e.user_token
)
SELECT id::text, user_token FROM made
""",
    {**WHO, "id": "uuid", "reason": "text", "actor": "text", "host": "text"},
)

COUNT_TOUCHED = Statement(
    "erasure_count_touched",
    """
UPDATE {s}.erasures e SET touched = (
    SELECT jsonb_object_agg(name, number) FROM (
        SELECT key AS name, sum(value::bigint) AS number
        FROM (SELECT * FROM jsonb_each_text(e.touched) UNION ALL SELECT * FROM jsonb_each_text(:more)) parts
        GROUP BY key) summed)
WHERE e.id = :erasure RETURNING 1
""",
    {"erasure": "uuid", "more": "jsonb"},
)

FINISH = Statement(
    "erasure_finish",
    """
UPDATE {s}.erasures SET finished_at = clock_timestamp(), destination_ids = '{}' WHERE id = :erasure
RETURNING touched::text
""",
    {"erasure": "uuid"},
)

FOUND = Statement(
    "erasure_found",
    f"""
WITH mine AS MATERIALIZED (SELECT id, status FROM {{s}}.reminders WHERE {OF}),
     turning AS MATERIALIZED (SELECT id FROM {{s}}.series WHERE {OF}),
     imported AS MATERIALIZED (SELECT id FROM {{s}}.calendars WHERE {OF})
SELECT count(*), count(*) FILTER (WHERE status = 'live'),
       (SELECT count(*) FROM {{s}}.notification_deliveries WHERE reminder_id IN (SELECT id FROM mine)),
       (SELECT count(*) FROM {{s}}.delivery_attempts WHERE delivery_key IN (
           SELECT delivery_key FROM {{s}}.notification_deliveries WHERE reminder_id IN (SELECT id FROM mine))),
       (SELECT count(*) FROM {{s}}.dead_letters WHERE reminder_id IN (SELECT id FROM mine)),
       (SELECT count(*) FROM {{s}}.shadow_deliveries WHERE reminder_id IN (SELECT id FROM mine)),
       (SELECT count(*) FROM turning),
       (SELECT count(*) FROM {{s}}.series_skips WHERE series_id IN (SELECT id FROM turning)),
       (SELECT count(*) FROM imported),
       (SELECT count(*) FROM {{s}}.calendar_entries WHERE calendar_id IN (SELECT id FROM imported)),
       (SELECT count(*) FROM {{s}}.calendar_revisions WHERE calendar_id IN (SELECT id FROM imported)),
       (SELECT count(*) FROM {{s}}.preferences WHERE {OF}),
       (SELECT count(*) FROM {{s}}.suppressions WHERE {OF}),
       (SELECT count(*) FROM {{s}}.recipients WHERE {OF})
FROM mine
""",
    WHO,
)
FOUND_IN = (
    "reminders", "live_reminders", "notification_deliveries", "delivery_attempts", "dead_letters", "shadow_deliveries", "series",
    "series_skips", "calendars", "calendar_entries", "calendar_revisions", "preferences", "suppressions", "recipients",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Erasure:
    """One user's erasure, which several runs may carry out between them. `token` stands for the user from here on."""

    id: UUID
    tenant: str
    user: str
    token: str
    actor: str

    @property
    def who(self) -> dict[str, str]:
        return {"tenant": self.tenant, "user": self.user}


def begin(database: Database, tenant: str, user: str, *, reason: str, actor: str) -> Erasure:
    """The user's erasure that is under way, or a new one; and what they are called from here on."""
    database.fetch(MAKE_KEY)
    said = {"reason": reason, "actor": actor, "host": socket.gethostname()}
    ((erasure, token),) = database.fetch(BEGIN, id=str(uuid7()), tenant=tenant, user=user, **said)
    return Erasure(UUID(erasure), tenant, user, token, actor)


def note(run: Run, of: Erasure, touched: Mapping[str, int]) -> None:
    """Add to what the erasure has touched, in the transaction that does it."""
    some = {name: number for name, number in touched.items() if number}
    if some:
        run(COUNT_TOUCHED, erasure=str(of.id), more=json.dumps(some))


def finish(database: Database, of: Erasure) -> dict[str, int]:
    """Say that nothing is left to do; what all runs of it have touched, by table."""
    touched: dict[str, int] = json.loads(database.fetch(FINISH, erasure=str(of.id))[0][0])
    return touched


def found(database: Database, tenant: str, user: str) -> dict[str, int]:
    """How many rows an erasure would find by the user's id. Nothing is changed or locked."""
    with database.transaction() as connection:
        (counts,) = fetch(connection, database.schema, FOUND, tenant=tenant, user=user)
    return dict(zip(FOUND_IN, counts, strict=True))


@contextmanager
def step(database: Database, *, by_index: bool = True) -> Iterator[Run]:
    """A transaction of its own that waits for nobody for long; unless told otherwise, it finds what it works on by indexes."""
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off; "
                f"SET LOCAL enable_seqscan = {'off' if by_index else 'on'}; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"
            )
        yield partial(fetch, connection, database.schema)

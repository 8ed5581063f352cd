"""Shadow: what the claim would have given a worker, without a claim; and the move that ends the reminder unsent.

The rules are those of the claim. There is no `sending` in between: a worker that dies leaves the row as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.domain.tenants import Decision
from reminders.ledger.claim_rules import ENDS, HELD, PLACE, QUIET, RULES
from reminders.ledger.database import Database
from reminders.ledger.delivery_columns import COLUMNS, delivery_of
from reminders.ledger.ending import DEDUP_WINDOW
from reminders.ledger.ownership import OURS, THIS_EPOCH
from reminders.ledger.pause_rules import PAUSED
from reminders.ledger.shadow_rows import SHADOW_ROW
from reminders.ledger.statement import Statement
from reminders.ledger.template_choice import CHOSEN
from reminders.ledger.tenant_registry import ALONE, Dispatcher
from reminders.pipeline.shadow_ports import Shadowed

_T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

# Of row `d` and what `PLACE` joins: it would be claimed, were its tenant live.
_WOULD_CALL = f"""d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published')
      AND qt.mode = 'shadow' AND {OURS} AND {THIS_EPOCH} AND NOT {ENDS} AND NOT {HELD} AND NOT {PAUSED} AND NOT {QUIET}"""

_GIVEN = {**RULES, "key": "text", "now": "timestamptz", "id": "uuid", "dispatcher": "text"}

WOULD_CALL = Statement(
    "shadow_look",
    f"""
WITH {_T}
SELECT COALESCE(n.claim_number, 0) + 1, COALESCE(n.body_format, (:formats ->> r.channel)::integer, 0), n.body_hash,
       COALESCE(n.template_id, {CHOSEN})::text, {COLUMNS}
FROM {{s}}.due d
JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
WHERE {_WOULD_CALL}
""",
    {**_GIVEN, "formats": "jsonb", "templated": "text[]"},
)

# A retry of the time before the shadow gives its key up: nothing more is sent under it.
SHADOW_IF_STILL_SO = Statement(
    "shadow",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT d.id, d.delivery_key
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE {_WOULD_CALL}
    FOR NO KEY UPDATE OF d, r SKIP LOCKED
), gone AS (
    DELETE FROM {{s}}.due USING mine WHERE due.id = mine.id
), delivery AS (
    UPDATE {{s}}.notification_deliveries n SET status = 'superseded', finished_at = (SELECT now FROM t)
    FROM mine WHERE n.delivery_key = mine.delivery_key
), shadow AS (
    {SHADOW_ROW}
)
UPDATE {{s}}.reminders r SET status = 'shadowed', finished_at = (SELECT now FROM t) FROM mine WHERE r.id = mine.id
RETURNING 'shadowed'
""",
    {**_GIVEN, "decision": "text", "why": "text", "body_hash": "bytea", "template": "uuid", "worker": "text"},
)

# As a claim that is given back: this worker cannot write for the channel, another one may.
WAIT_IF_SHADOW = Statement(
    "shadow_wait",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT d.id FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE {_WOULD_CALL}
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d SET status = 'pending', wake_at = LEAST((SELECT now FROM t) + make_interval(secs => :seconds), d.give_up_at)
FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {**_GIVEN, "seconds": "float8"},
)


class PostgresShadow:
    """`reminders.pipeline.shadow_ports.ShadowLedger` on Postgres; its arguments are those of `PostgresClaims`."""

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        formats: Mapping[str, int],
        look_ups: Iterable[str] = (),
        templated: Iterable[str] = (),
        window: float = DEDUP_WINDOW,
        dispatcher: Dispatcher = ALONE,
        now: datetime | None = None,
    ) -> None:
        self._db = database
        self._worker = worker
        self._formats = json.dumps(dict(formats))
        self._templated = sorted(templated)
        self._given: dict[str, Any] = {
            "look_ups": sorted(look_ups),
            "window": window,
            "dispatcher": dispatcher.dispatcher,
            "now": now,
        }

    def would_call(self, reminder_id: UUID, delivery_key: str) -> Shadowed | None:
        given = self._of(reminder_id, delivery_key)
        rows = self._db.fetch(WOULD_CALL, **given, formats=self._formats, templated=self._templated)
        if not rows:
            return None
        number, body_format, body_hash, template, *columns = rows[0]
        delivery = delivery_of(reminder_id, delivery_key, columns, attempt=number, body_format=body_format)
        return Shadowed(
            delivery,
            body_hash=None if body_hash is None else bytes(body_hash),
            template_id=None if template is None else UUID(template),
        )

    def shadow_if_still_so(
        self, shadowed: Shadowed, decision: Decision, *, why: str | None = None, body_hash: bytes | None = None
    ) -> bool:
        template = None if shadowed.template_id is None else str(shadowed.template_id)
        rows = self._db.fetch(
            SHADOW_IF_STILL_SO,
            **self._of(shadowed.delivery.reminder_id, shadowed.delivery.delivery_key),
            decision=decision,
            why=why,
            body_hash=body_hash,
            template=template,
            worker=self._worker,
        )
        return bool(rows)

    def wait_if_still_so(self, shadowed: Shadowed, seconds: float) -> bool:
        given = self._of(shadowed.delivery.reminder_id, shadowed.delivery.delivery_key)
        return bool(self._db.fetch(WAIT_IF_SHADOW, **given, seconds=seconds))

    def _of(self, reminder_id: UUID, delivery_key: str) -> dict[str, Any]:
        return {**self._given, "id": str(reminder_id), "key": delivery_key}

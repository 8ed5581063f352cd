"""The claim: the committed right to call the provider once, and what becomes of messages that get none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.ledger.claim_rules import DELAYS, ENDS, HELD, ON_UNKNOWN, PLACE, QUIET, RULES, SECRET_MARK
from reminders.ledger.database import DATABASE_AWAY, ROLLED_BACK, Database, Row
from reminders.ledger.delivery_columns import COLUMNS, delivery_of
from reminders.ledger.ending import DEDUP_WINDOW, end_without_call
from reminders.ledger.ownership import MAY_CALL, OURS, OWNER, THIS_EPOCH
from reminders.ledger.pause_rules import HOLD_IF_PAUSED, PAUSED
from reminders.ledger.putting_off import MAX_WAIT, PUT_OFF_IF_HELD
from reminders.ledger.quiet_parking import park_if_quiet
from reminders.ledger.statement import Statement
from reminders.ledger.template_choice import CHOSEN
from reminders.ledger.tenant_registry import ALONE, PASS_ON_IF_HANDED_OVER, Dispatcher, register
from reminders.ledger.together import Together
from reminders.pipeline.ports import Claim

_CLAIMED = f"""SELECT d.claim_token::text, d.claim_number, d.claimed_at, d.on_unknown, d.uncertain_since, d.body_format, d.body_hash, d.template_id::text,
       extract(epoch FROM d.claimed_at - d.budget_started_at - COALESCE(d.held_for, '0'))::float8, r.attempts, r.retry_delays, r.secret_mark,
       {COLUMNS}
FROM delivery d JOIN r ON r.id = d.reminder_id
"""

# The reminder's row of `due` is locked before anything else, and never waited for: a claim that inserted the delivery
# row first could wait behind another claimer, while `cancel` commits, and then win on a cancelled reminder. Many are asked
# for at once; of two for one reminder one is.
CLAIM = Statement(
    "claim",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
asked AS MATERIALIZED (
    SELECT DISTINCT ON (id) * FROM unnest(:ids, :keys, :tokens, :seconds) AS a (id, key, token, seconds)
), held AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, d.give_up_at, d.epoch, asked.token,
           (SELECT now FROM t) + make_interval(secs => asked.seconds) AS until
    FROM asked JOIN {{s}}.due d ON d.id = asked.id
    WHERE d.delivery_key = asked.key AND d.status IN ('leased', 'published')
    FOR NO KEY UPDATE OF d SKIP LOCKED
), r AS MATERIALIZED (
    SELECT r.*, d.attempts, d.delivery_key AS key, d.token, d.until, {ON_UNKNOWN} AS on_unknown, {DELAYS} AS retry_delays, {SECRET_MARK} AS secret_mark,
           {CHOSEN} AS chosen_template
    FROM held d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE {MAY_CALL} AND NOT {ENDS} AND NOT {HELD} AND NOT {PAUSED} AND NOT {QUIET}
), moved AS (
    UPDATE {{s}}.due d
    SET status = 'sending', wake_at = r.until, let_go_by = NULL, due_since = NULL
    FROM r WHERE d.id = r.id
    RETURNING d.id
), delivery AS (
    INSERT INTO {{s}}.notification_deliveries AS n
        (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, claimed_until, worker, on_unknown,
         body_format, template_id, budget_started_at, given_back)
    SELECT r.key, r.id, 'sending', 1, r.token, (SELECT now FROM t), r.until, :worker, r.on_unknown,
           COALESCE((:formats ->> r.channel)::integer, 0), r.chosen_template, (SELECT now FROM t), 0
    FROM r JOIN moved ON moved.id = r.id
    ON CONFLICT (delivery_key) DO UPDATE
    SET status = 'sending', claim_number = n.claim_number + 1, claim_token = EXCLUDED.claim_token,
        claimed_at = EXCLUDED.claimed_at, claimed_until = EXCLUDED.claimed_until, worker = EXCLUDED.worker,
        on_unknown = EXCLUDED.on_unknown, template_id = COALESCE(n.template_id, EXCLUDED.template_id), retry_at = NULL, letter_kind = NULL, finished_at = NULL,
        budget_started_at = COALESCE(n.budget_started_at, EXCLUDED.budget_started_at),
        held_for = CASE WHEN n.budget_started_at IS NOT NULL THEN n.held_for END
    RETURNING n.*
)
{_CLAIMED}""",
    {
        **RULES, **OWNER, "now": "timestamptz", "ids": "uuid[]", "keys": "text[]", "tokens": "uuid[]", "seconds": "float8[]",
        "worker": "text", "formats": "jsonb", "templated": "text[]",
    },
)  # fmt: skip

# The claim's reply was lost with its connection: whoever still has the token learns what it was.
CLAIMED_WITH = Statement(
    "claimed_with",
    f"""
WITH delivery AS (
    SELECT * FROM {{s}}.notification_deliveries
    WHERE delivery_key = :key AND claim_token = :token AND status = 'sending'
), r AS (
    SELECT r.*, d.attempts, {DELAYS} AS retry_delays, {SECRET_MARK} AS secret_mark
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status = 'sending'
)
{_CLAIMED}""",
    {"id": "uuid", "key": "text", "token": "uuid"},
)

REFUSAL = Statement(
    "refusal",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT r.status, d.status, d.delivery_key = :key, r.delivery_key = :key, {ENDS}, {PAUSED}, {HELD}, {QUIET},
       {OURS}, {THIS_EPOCH}, r.tenant_id, qt.mode, COALESCE(qt.mode, :new_tenants)
FROM {{s}}.reminders r
LEFT JOIN {{s}}.due d ON d.id = r.id
    {PLACE}
WHERE r.id = :id
""",
    {**RULES, **OWNER, "key": "text", "now": "timestamptz", "id": "uuid"},
)

LOCK_TIMEOUT_MS = 500
"""How long a claim, and those that go together with it, waits for whoever holds the row of its delivery and not that of `due`:
an attempt's late record for a moment, and for longer only who works in our tables by hand."""
SHADOW = "shadow"
"""The refusal of what is not sent because its tenant is in shadow, although nothing else stands against it."""
_PASSED_ON = {"pending": "parked", "sending": "claimed", "held": "paused"}
"""What a message is told whose reminder is not leased or published any more, by the status in `due`."""


class PostgresClaims:
    """Takes claims for one worker process.

    `formats` is the body format that a first claim pins, by channel; `look_ups` names the channels that can look a key
    up, `templated` those whose messages are written by templates; `window` is the seconds for which destinations that
    deduplicate remember a key, `max_wait` those for which a reminder may be put off in all. Claims are those of
    `dispatcher`'s workers.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        formats: Mapping[str, int],
        look_ups: Iterable[str] = (),
        templated: Iterable[str] = (),
        window: float = DEDUP_WINDOW,
        max_wait: float = MAX_WAIT,
        dispatcher: Dispatcher = ALONE,
        now: datetime | None = None,
    ) -> None:
        self._db = database
        self._worker = worker
        self._formats = json.dumps(dict(formats))
        self._rules: dict[str, Any] = {"look_ups": sorted(look_ups), "window": window}
        self._dispatcher = dispatcher
        self._templated = sorted(templated)
        self._max_wait = max_wait
        self._now = now
        self._together = Together(self._claim_together, faults=DATABASE_AWAY, of_one=ROLLED_BACK)

    def claim(self, reminder_id: UUID, delivery_key: str, token: UUID, seconds: float) -> Claim | None:
        row = self._together((str(reminder_id), delivery_key, str(token), seconds))
        return None if row is None else _claim(reminder_id, delivery_key, row)

    def _claim_together(self, asked: Sequence[tuple[str, str, str, float]]) -> list[Row | None]:
        ids, keys, tokens, seconds = map(list, zip(*asked, strict=True))
        rows = self._db.fetch_marked(
            "pauses",
            LOCK_TIMEOUT_MS,
            CLAIM,
            now=self._now,
            ids=ids,
            keys=keys,
            tokens=tokens,
            seconds=seconds,
            worker=self._worker,
            formats=self._formats,
            templated=self._templated,
            **self._rules,
            **self._dispatcher.given(),
        )
        claimed = {row[0]: row for row in rows}
        return [claimed.get(token) for _, _, token, _ in asked]

    def claimed_with(self, reminder_id: UUID, delivery_key: str, token: UUID) -> Claim | None:
        """The open claim that was taken with this token, if there is one."""
        rows = self._db.fetch(CLAIMED_WITH, id=str(reminder_id), key=delivery_key, token=str(token))
        return _claim(reminder_id, delivery_key, rows[0]) if rows else None

    def refusal(self, reminder_id: UUID, delivery_key: str) -> str:
        """Why there is no claim: `busy` (locked by somebody), or a reason that makes the message superfluous."""
        given = {"now": self._now, "id": str(reminder_id), "key": delivery_key, **self._rules}
        rows = self._db.fetch(REFUSAL, **given, **self._dispatcher.given())
        if not rows:
            return "gone"
        ledger_status, live, live_key_matches, key_matches, ends, paused, held, quiet, *tenant = rows[0]
        if not key_matches or (live is not None and not live_key_matches):
            return "superseded"
        if live is None:
            return str(ledger_status)
        if live in _PASSED_ON:
            return _PASSED_ON[live]
        if (elsewhere := self._of_tenant(reminder_id, delivery_key, tenant)) is not None:
            return elsewhere
        if ends:
            ended = end_without_call(self._db, [reminder_id], now=self._now, **self._rules)
            return ended[0] if ended else "busy"
        if paused:
            moved = self._db.fetch(HOLD_IF_PAUSED, **given)
            return str(moved[0][0]) if moved else "busy"
        if held:
            put_off = self._db.fetch(PUT_OFF_IF_HELD, **given, max_wait=self._max_wait)
            return str(put_off[0][0]) if put_off else "busy"
        if quiet:
            return park_if_quiet(self._db, reminder_id, delivery_key, now=self._now, **self._rules)
        return SHADOW if tenant[4] == SHADOW else "busy"

    def _of_tenant(self, reminder_id: UUID, delivery_key: str, tenant: Sequence[Any]) -> str | None:
        """What becomes of a message because of whose the tenant is; None if it is this dispatcher's, and of this epoch."""
        ours, this_epoch, tenant_id, mode, _ = tenant
        if not this_epoch:
            moved = self._db.fetch(PASS_ON_IF_HANDED_OVER, now=self._now, id=str(reminder_id), key=delivery_key)
            return str(moved[0][0]) if moved else "busy"
        if not ours:
            return "another_dispatchers"
        if mode is None and self._dispatcher.new_tenants != "live":
            register(self._db, [tenant_id], self._dispatcher)
            return "busy"
        return None


def _claim(reminder_id: UUID, delivery_key: str, row: Row) -> Claim:
    number, claimed_at, on_unknown, uncertain_since, body_format, body_hash, template, waited, *counted, mark = row[
        1:12
    ]
    attempts, delays = counted
    delivery = delivery_of(
        reminder_id,
        delivery_key,
        row[12:],
        attempt=number,
        body_format=body_format,
        claimed_at=claimed_at,
        uncertain_since=uncertain_since,
    )
    return Claim(
        delivery=delivery,
        claim_number=number,
        claimed_at=claimed_at,
        on_unknown=on_unknown,
        uncertain=uncertain_since is not None,
        attempts=attempts,
        waited=waited,
        body_hash=None if body_hash is None else bytes(body_hash),
        delays=None if delays is None else tuple(delays),
        secret_mark=mark,
        template_id=None if template is None else UUID(template),
    )

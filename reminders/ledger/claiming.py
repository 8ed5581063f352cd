"""The claim: the committed right to call the provider once, and what becomes of messages that get none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.ledger.database import Database, Row
from reminders.ledger.ending import DEDUP_WINDOW, ENDS, end_without_call
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Claim

_CLAIMED = """SELECT d.claim_number, d.claimed_at, d.on_unknown, d.uncertain_since IS NOT NULL, d.body_format, d.body_hash,
       extract(epoch FROM d.claimed_at - d.budget_started_at)::float8, r.attempts,
       r.tenant_id, r.user_id, r.kind, r.channel, r.destination_id::text, r.destination, r.due_at, r.zone, r.reference,
       r.slot, r.data::text
FROM delivery d CROSS JOIN r
"""

# The reminder's row of `due` is locked before anything else, and never waited for: a claim that inserted the delivery
# row first could wait behind another claimer, while `cancel` commits, and then win on a cancelled reminder.
CLAIM = Statement(
    "claim",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT id, attempts, give_up_at FROM {{s}}.due
    WHERE id = :id AND delivery_key = :key AND status IN ('leased', 'published')
    FOR NO KEY UPDATE SKIP LOCKED
), r AS MATERIALIZED (
    SELECT r.*, h.attempts, COALESCE(p.deduplicates, r.deduplicates) AS repeatable
    FROM held h
    JOIN {{s}}.reminders r ON r.id = h.id
    LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = :key
    WHERE (r.expires_at IS NULL OR r.expires_at > (SELECT now FROM t))
      AND (h.give_up_at IS NULL OR h.give_up_at > (SELECT now FROM t)) AND n.confirmed_late_at IS NULL
      AND (n.uncertain_since IS NULL
           OR COALESCE(p.deduplicates, r.deduplicates)
              AND n.uncertain_since > (SELECT now FROM t) - make_interval(secs => :window))
), moved AS (
    UPDATE {{s}}.due d
    SET status = 'sending', wake_at = (SELECT now FROM t) + make_interval(secs => :seconds)
    FROM r WHERE d.id = r.id
    RETURNING d.id
), delivery AS (
    INSERT INTO {{s}}.notification_deliveries AS n
        (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, claimed_until, worker, on_unknown,
         body_format, budget_started_at, given_back)
    SELECT :key, r.id, 'sending', 1, :token, (SELECT now FROM t), (SELECT now FROM t) + make_interval(secs => :seconds),
           :worker, CASE WHEN r.repeatable THEN 'repeat' ELSE 'review' END,
           COALESCE((:formats ->> r.channel)::integer, 0), (SELECT now FROM t), 0
    FROM r JOIN moved ON moved.id = r.id
    ON CONFLICT (delivery_key) DO UPDATE
    SET status = 'sending', claim_number = n.claim_number + 1, claim_token = EXCLUDED.claim_token,
        claimed_at = EXCLUDED.claimed_at, claimed_until = EXCLUDED.claimed_until, worker = EXCLUDED.worker,
        on_unknown = EXCLUDED.on_unknown, retry_at = NULL, letter_kind = NULL, finished_at = NULL,
        budget_started_at = COALESCE(n.budget_started_at, EXCLUDED.budget_started_at)
    RETURNING n.*
)
{_CLAIMED}""",
    {
        "now": "timestamptz", "id": "uuid", "key": "text", "seconds": "float8", "token": "uuid", "worker": "text", "formats": "jsonb",
        "window": "float8",
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
    SELECT r.*, h.attempts
    FROM {{s}}.due h
    JOIN {{s}}.reminders r ON r.id = h.id
    WHERE h.id = :id AND h.delivery_key = :key AND h.status = 'sending'
)
{_CLAIMED}""",
    {"id": "uuid", "key": "text", "token": "uuid"},
)

REFUSAL = Statement(
    "refusal",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)
SELECT r.status, d.status, d.delivery_key = :key, r.delivery_key = :key, COALESCE({ENDS}, false)
FROM {{s}}.reminders r
LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
LEFT JOIN {{s}}.due d ON d.id = r.id
LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = :key
WHERE r.id = :id
""",
    {"now": "timestamptz", "id": "uuid", "key": "text", "window": "float8"},
)


class PostgresClaims:
    """Takes claims for one worker process.

    `formats` is the body format that a first claim pins, by channel; `window` the seconds for which destinations that
    deduplicate remember a key.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        formats: Mapping[str, int],
        window: float = DEDUP_WINDOW,
        now: datetime | None = None,
    ) -> None:
        self._db = database
        self._worker = worker
        self._formats = json.dumps(dict(formats))
        self._window = window
        self._now = now

    def claim(self, reminder_id: UUID, delivery_key: str, token: UUID, seconds: float) -> Claim | None:
        rows = self._db.fetch(
            CLAIM,
            now=self._now,
            id=str(reminder_id),
            key=delivery_key,
            seconds=seconds,
            token=str(token),
            worker=self._worker,
            formats=self._formats,
            window=self._window,
        )
        return _claim(reminder_id, delivery_key, rows[0]) if rows else None

    def claimed_with(self, reminder_id: UUID, delivery_key: str, token: UUID) -> Claim | None:
        """The open claim that was taken with this token, if there is one."""
        rows = self._db.fetch(CLAIMED_WITH, id=str(reminder_id), key=delivery_key, token=str(token))
        return _claim(reminder_id, delivery_key, rows[0]) if rows else None

    def refusal(self, reminder_id: UUID, delivery_key: str) -> str:
        """Why there is no claim: `busy` (locked by somebody), or a reason that makes the message superfluous."""
        given = {"now": self._now, "id": str(reminder_id), "key": delivery_key, "window": self._window}
        rows = self._db.fetch(REFUSAL, **given)
        if not rows:
            return "gone"
        ledger_status, live, live_key_matches, key_matches, ends = rows[0]
        if not key_matches or (live is not None and not live_key_matches):
            return "superseded"
        if live is None:
            return str(ledger_status)
        if live in {"pending", "sending"}:
            return "parked" if live == "pending" else "claimed"
        if ends:
            ended = end_without_call(self._db, [reminder_id], self._window, self._now)
            return ended[0] if ended else "busy"
        return "busy"


def _claim(reminder_id: UUID, delivery_key: str, row: Row) -> Claim:
    number, claimed_at, on_unknown, uncertain, body_format, body_hash, waited, attempts, *columns = row
    tenant, user, kind, channel, place_id, address, due_at, zone, reference, slot, data = columns
    delivery = Delivery(
        reminder_id=reminder_id,
        delivery_key=delivery_key,
        tenant_id=tenant,
        user_id=user,
        kind=kind,
        channel=channel,
        destination_id=UUID(place_id),
        destination=address,
        due_at=due_at.astimezone(UTC),
        zone=zone,
        reference=reference,
        slot=slot,
        data=json.loads(data),
        attempt=number,
        body_format=body_format,
    )
    return Claim(
        delivery=delivery,
        claim_number=number,
        claimed_at=claimed_at,
        on_unknown=on_unknown,
        uncertain=uncertain,
        attempts=attempts,
        waited=waited,
        body_hash=None if body_hash is None else bytes(body_hash),
    )

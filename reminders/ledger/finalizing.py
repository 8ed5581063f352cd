"""Recording what a call came to: one guarded statement, in the order reminder, delivery, attempt.

Every form begins by locking the reminder's row of `due` while it is `sending` under this key, then moves the delivery
row only if it is still `sending` under this claim number. A claim that was repaired or superseded finds neither and
changes nothing; its attempt is completed on record by `record_late`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Bury, Park
from reminders.ledger.database import Database, LockNotAvailable
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Claim, Report

LOCK_TIMEOUT_MS = 500
"""How long a finalize waits for an application's transaction that holds the reminder's row."""

_REPORT = {
    "now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "outcome": "text", "code": "integer",
    "reference": "text", "error_class": "text", "reason": "text", "duration": "integer", "decision": "text",
    "body_hash": "bytea",
}  # fmt: skip

_LOCKED = """
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
locked AS MATERIALIZED (
    SELECT id, attempts, cancel_requested_at IS NOT NULL AS cancel_requested FROM {s}.due
    WHERE id = :id AND delivery_key = :key AND status = 'sending'
    FOR NO KEY UPDATE
)"""

_ATTEMPT = """attempt AS (
    INSERT INTO {s}.delivery_attempts
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    SELECT delivery_key, claim_number, claimed_at, reminder_id, worker, :outcome, :code, :reference, :error_class,
           :reason, :duration, :decision
    FROM delivery
)"""

# Uncertainty is sticky: an unknown outcome sets its time once, and only a confirmed delivery clears it.
_UNCERTAIN = "uncertain_since = CASE WHEN :outcome = 'unknown' THEN COALESCE(n.uncertain_since, (SELECT now FROM t)) ELSE n.uncertain_since END"

_GUARD = "n.delivery_key = :key AND n.claim_number = :number AND n.status = 'sending'"

# A requested cancellation stops the move, and so does an earlier attempt's late success; but only a claim that still
# stands may be told of them.
_ANSWER = (
    """SELECT CASE WHEN delivery.claim_number IS NOT NULL THEN 'done' ELSE instead.answer END
FROM locked LEFT JOIN delivery ON true LEFT JOIN LATERAL (
    SELECT CASE WHEN n.confirmed_late_at IS NOT NULL THEN 'confirmed late' ELSE 'cancel requested' END AS answer
    FROM {s}.notification_deliveries n
    WHERE delivery.claim_number IS NULL AND (locked.cancel_requested OR n.confirmed_late_at IS NOT NULL) AND """
    + _GUARD
    + """
) instead ON true
WHERE delivery.claim_number IS NOT NULL OR instead.answer IS NOT NULL"""
)

_END_DELIVERED = f"""gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
)
UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 'done'
"""

DELIVERED = Statement(
    "finalize_delivered",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', provider_reference = :reference, uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {_GUARD}
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_ATTEMPT}, {_END_DELIVERED}""",
    _REPORT,
)

# This attempt came to something else, but an earlier one has reported its success meanwhile.
CONFIRMED = Statement(
    "finalize_confirmed",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {_GUARD} AND n.confirmed_late_at IS NOT NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_ATTEMPT_WITHOUT_REFERENCE}, {_END_DELIVERED}""",
    {name: kind for name, kind in _REPORT.items() if name != "reference"},
)

PARKED = Statement(
    "finalize_parked",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = (SELECT now FROM t) + make_interval(secs => :seconds), {_UNCERTAIN},
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {_GUARD} AND NOT locked.cancel_requested
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker, n.retry_at
), {_ATTEMPT}, noted AS (
    UPDATE {{s}}.reminders r SET last_outcome = :outcome FROM delivery WHERE r.id = delivery.reminder_id
    RETURNING r.id, r.expires_at
), woken AS (
    UPDATE {{s}}.due d
    SET status = 'pending', wake_at = LEAST(delivery.retry_at, noted.expires_at), route = :route, attempts = d.attempts + 1,
        alone_deaths = 0
    FROM delivery JOIN noted ON noted.id = delivery.reminder_id
    WHERE d.id = delivery.reminder_id
)
{_ANSWER}
""",
    {**_REPORT, "seconds": "float8", "route": "text"},
)

BURIED = Statement(
    "finalize_buried",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE :letter WHEN 'unknown' THEN 'unknown' ELSE 'dead' END, letter_kind = :letter, {_UNCERTAIN},
        finished_at = (SELECT now FROM t), body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {_GUARD} AND NOT (locked.cancel_requested AND :letter <> 'unknown')
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker, locked.attempts
), {_ATTEMPT}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, reminder_id, delivery_key, :letter, :error_class, :reason, attempts + 1 FROM delivery
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'dead', last_outcome = :outcome, finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id
)
{_ANSWER}
""",
    {**_REPORT, "letter": "text", "letter_id": "uuid"},
)

CANCELLED = Statement(
    "finalize_cancelled",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'cancelled', finished_at = (SELECT now FROM t), body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {_GUARD} AND locked.cancel_requested
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_ATTEMPT}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
)
UPDATE {{s}}.reminders r SET status = 'cancelled', last_outcome = :outcome, finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 'done'
""",
    _REPORT,
)

# An application's transaction sits on the reminder's row: the outcome must not wait for it, nor be lost. The look at
# the claim's end carries the reminder over.
ALONE = Statement(
    "finalize_alone",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = :status, {_UNCERTAIN}, letter_kind = :letter,
        provider_reference = COALESCE(:reference, n.provider_reference), body_hash = COALESCE(n.body_hash, :body_hash),
        retry_at = CASE WHEN :status = 'retrying' THEN (SELECT now FROM t) + make_interval(secs => :seconds) END,
        finished_at = CASE WHEN :status <> 'retrying' THEN (SELECT now FROM t) END
    WHERE {_GUARD} AND n.reminder_id = :id
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {_ATTEMPT}
SELECT 'done' FROM delivery
""",
    {**_REPORT, "status": "text", "letter": "text", "seconds": "float8"},
)

RELEASED = Statement(
    "release_not_called",
    f"""{_LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE WHEN locked.cancel_requested THEN 'cancelled' ELSE 'retrying' END,
        retry_at = (SELECT now FROM t) + make_interval(secs => :seconds),
        finished_at = CASE WHEN locked.cancel_requested THEN (SELECT now FROM t) END
    FROM locked WHERE {_GUARD}
    RETURNING n.reminder_id, n.retry_at, n.status
), gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id AND delivery.status = 'cancelled'
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'cancelled', finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id AND delivery.status = 'cancelled'
), woken AS (
    UPDATE {{s}}.due d SET status = 'pending', wake_at = delivery.retry_at
    FROM delivery WHERE d.id = delivery.reminder_id AND delivery.status = 'retrying'
)
SELECT 'done' FROM delivery
""",
    {"now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "seconds": "float8"},
)

LATE = Statement(
    "record_late",
    """
WITH attempt AS (
    INSERT INTO {s}.delivery_attempts AS a
        (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, status_code, provider_reference, error_class,
         reason, duration_ms, decision)
    VALUES (:key, :number, :claimed_at, :id, :worker, :outcome, :code, :reference, :error_class, :reason, :duration,
            'late: the claim had lapsed')
    ON CONFLICT (delivery_key, claim_number, claimed_at) DO UPDATE
    SET outcome = EXCLUDED.outcome, status_code = EXCLUDED.status_code, provider_reference = EXCLUDED.provider_reference,
        error_class = EXCLUDED.error_class, reason = EXCLUDED.reason, duration_ms = EXCLUDED.duration_ms,
        decision = EXCLUDED.decision
    WHERE a.error_class = 'worker_lost'
), stamp AS (
    UPDATE {s}.notification_deliveries
    SET confirmed_late_at = COALESCE(confirmed_late_at, COALESCE(:now, clock_timestamp())),
        provider_reference = COALESCE(provider_reference, :reference)
    WHERE delivery_key = :key AND :outcome = 'delivered' AND status <> 'delivered'
)
SELECT 1
""",
    {
        "now": "timestamptz", "id": "uuid", "key": "text", "number": "integer", "claimed_at": "timestamptz", "worker": "text",
        "outcome": "text", "code": "integer", "reference": "text", "error_class": "text", "reason": "text", "duration": "integer",
    },
)  # fmt: skip


class PostgresFinalize:
    """The moves that end a claim. Each answers `done`, `cancel requested` (nothing changed yet) or `lapsed`."""

    def __init__(self, database: Database, *, worker: str, now: datetime | None = None) -> None:
        self._db = database
        self._worker = worker
        self._now = now

    def finalize_delivered_if_sending(self, claim: Claim, report: Report) -> str:
        return self._move(DELIVERED, self._given(claim, report, "delivered"), {"status": "delivered"})

    def finalize_parked_if_sending(self, claim: Claim, report: Report, decision: Park) -> str:
        given = self._given(claim, report, f"retry in {decision.seconds:.1f} s")
        alone = {"status": "retrying", "seconds": decision.seconds}
        return self._move(PARKED, {**given, "seconds": decision.seconds, "route": decision.route}, alone)

    def finalize_buried_if_sending(self, claim: Claim, report: Report, decision: Bury) -> str:
        given = self._given(claim, report, f"dead letter: {decision.kind}")
        alone = {"status": "unknown" if decision.kind == "unknown" else "dead", "letter": decision.kind}
        return self._move(BURIED, {**given, "letter": decision.kind, "letter_id": str(uuid7())}, alone)

    def finalize_cancelled_if_sending(self, claim: Claim, report: Report) -> str:
        given = self._given(claim, report, "cancelled, as requested")
        return self._move(CANCELLED, given, {"status": "cancelled"})

    def release_not_called_if_sending(self, claim: Claim, seconds: float) -> bool:
        given = {
            "id": str(claim.delivery.reminder_id),
            "key": claim.delivery.delivery_key,
            "number": claim.claim_number,
        }
        try:
            return bool(self._db.fetch_within(LOCK_TIMEOUT_MS, RELEASED, now=self._now, seconds=seconds, **given))
        except LockNotAvailable:
            return False

    def record_late(self, claim: Claim, report: Report) -> None:
        given = self._given(claim, report, "")
        del given["decision"], given["body_hash"]
        self._db.fetch(LATE, **given, claimed_at=claim.claimed_at, worker=self._worker)

    def _move(self, statement: Statement, given: dict[str, Any], alone: dict[str, Any]) -> str:
        try:
            rows = self._db.fetch_within(LOCK_TIMEOUT_MS, statement, **given)
        except LockNotAvailable:
            rows = self._db.fetch(ALONE, **{**given, **alone})
        return str(rows[0][0]) if rows else "lapsed"

    def _given(self, claim: Claim, report: Report, decision: str) -> dict[str, Any]:
        outcome = report.outcome
        return {
            "now": self._now,
            "id": str(claim.delivery.reminder_id),
            "key": claim.delivery.delivery_key,
            "number": claim.claim_number,
            "outcome": outcome.name,
            "code": outcome.status_code,
            "reference": outcome.reference if isinstance(outcome, Delivered) else None,
            "error_class": outcome.error_class,
            "reason": outcome.reason,
            "duration": report.duration_ms,
            "decision": decision,
            "body_hash": report.body_hash,
        }

"""Recording what a call came to: one guarded statement, in the order reminder, delivery, attempt.

A claim that was repaired or superseded changes nothing; its attempt is completed on record by `record_late`.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from reminders.domain.breaker import BreakerPolicy
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Bury, Park, Wait
from reminders.ledger.database import DATABASE_AWAY, ROLLED_BACK, Database, LockNotAvailable
from reminders.ledger.failing import DISABLE_AFTER, recovered
from reminders.ledger.finalizing_together import finalize_delivered
from reminders.ledger.giving_back import release
from reminders.ledger.holding import SAID, SAYS, WAITING, said_by
from reminders.ledger.late_truth import CONFIRMED, LATE, SETTLE
from reminders.ledger.notices import NEWS, tell
from reminders.ledger.open_claim import (
    ANSWER,
    ATTEMPT,
    BURNT,
    CERTAIN,
    END_DELIVERED,
    GUARD,
    LOCK_TIMEOUT_MS,
    LOCKED,
    REPORT,
    UNCERTAIN,
    T,
)
from reminders.ledger.statement import Statement
from reminders.ledger.together import Together
from reminders.pipeline.ports import Claim, Report

LONGEST_REASON = 500
LOOK_UP = "look-up: "
"""How the decision of an attempt begins that asked for the key instead of sending."""
_LARGEST_INTEGER = 2**31 - 1

DELIVERED = Statement(
    "finalize_delivered",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', provider_reference = :reference, uncertain_since = NULL, finished_at = (SELECT now FROM t),
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {GUARD}
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {ATTEMPT}, {END_DELIVERED}""",
    REPORT,
)

PARKED = Statement(
    "finalize_parked",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = (SELECT now FROM t) + make_interval(secs => :seconds), {UNCERTAIN},
        body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {GUARD} AND NOT locked.cancel_requested AND n.confirmed_late_at IS NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker, n.retry_at
), {ATTEMPT}, {SAID}, noted AS (
    UPDATE {{s}}.reminders r SET last_outcome = :outcome FROM delivery WHERE r.id = delivery.reminder_id
    RETURNING r.id, r.expires_at
), woken AS (
    UPDATE {{s}}.due d
    SET status = 'pending', wake_at = LEAST(delivery.retry_at, noted.expires_at, d.give_up_at), route = :route, attempts = d.attempts + 1,
        alone_deaths = 0
    FROM delivery JOIN noted ON noted.id = delivery.reminder_id
    WHERE d.id = delivery.reminder_id
)
{ANSWER}
""",
    {**REPORT, **CERTAIN, **SAYS, "seconds": "float8", "route": "text"},
)

BURIED = Statement(
    "finalize_buried",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = CASE :letter WHEN 'unknown' THEN 'unknown' ELSE 'dead' END, letter_kind = :letter, {UNCERTAIN},
        finished_at = (SELECT now FROM t), body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked
    WHERE {GUARD} AND NOT (locked.cancel_requested AND :letter <> 'unknown') AND n.confirmed_late_at IS NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker, locked.attempts
), {ATTEMPT}, {SAID}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
), letter AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, reminder_id, delivery_key, :letter, :error_class, :reason, attempts + {BURNT} FROM delivery
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'dead', last_outcome = :outcome, finished_at = (SELECT now FROM t)
    FROM delivery WHERE r.id = delivery.reminder_id
)
{ANSWER}
""",
    {**REPORT, **CERTAIN, **SAYS, "letter": "text", "letter_id": "uuid"},
)

CANCELLED = Statement(
    "finalize_cancelled",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'cancelled', finished_at = (SELECT now FROM t), {UNCERTAIN}, body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {GUARD} AND locked.cancel_requested AND n.confirmed_late_at IS NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {ATTEMPT}, {SAID}, gone AS (
    DELETE FROM {{s}}.due USING delivery WHERE due.id = delivery.reminder_id
)
UPDATE {{s}}.reminders r SET status = 'cancelled', last_outcome = :outcome, finished_at = (SELECT now FROM t)
FROM delivery WHERE r.id = delivery.reminder_id
RETURNING 'done', {NEWS}
""",
    {**REPORT, **CERTAIN, **SAYS},
)

# An application's transaction sits on the reminder's row: the outcome must not wait for it, nor be lost. The look at
# the claim's end carries the reminder over.
ALONE = Statement(
    "finalize_alone",
    f"""
WITH {T}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = :status, letter_kind = :letter,
        uncertain_since = CASE WHEN :status = 'delivered' THEN NULL
                               WHEN :outcome = 'unknown' THEN COALESCE(n.uncertain_since, n.claimed_at)
                               WHEN NOT :certain THEN n.uncertain_since END,
        provider_reference = COALESCE(:reference, n.provider_reference), body_hash = COALESCE(n.body_hash, :body_hash),
        retry_at = CASE WHEN :status = 'retrying' THEN (SELECT now FROM t) + make_interval(secs => :seconds) END,
        finished_at = CASE WHEN :status <> 'retrying' THEN (SELECT now FROM t) END
    WHERE {GUARD} AND n.reminder_id = :id
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {ATTEMPT}, {SAID}, {recovered("SELECT r.destination_id FROM delivery JOIN {s}.reminders r ON r.id = delivery.reminder_id WHERE :status = 'delivered'")}
SELECT 'done', {NEWS} FROM delivery
""",
    {**REPORT, **CERTAIN, **SAYS, "status": "text", "letter": "text", "seconds": "float8"},
)


class PostgresFinalize:
    """`reminders.pipeline.ports.FinalizeLedger` on Postgres. `now` replaces the database's clock in tests.

    `disable_after` is for how many seconds every call to a destination must have failed before it is disabled; 0 is never.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        disable_after: float = DISABLE_AFTER,
        breaker: BreakerPolicy | None = None,
        now: datetime | None = None,
    ) -> None:
        self._db = database
        self._worker = worker
        self._disable_after = disable_after
        self._breaker = breaker or BreakerPolicy()
        self._now = now
        self._delivered_together = Together(
            partial(finalize_delivered, database), faults=DATABASE_AWAY, of_one=ROLLED_BACK
        )

    def finalize_delivered_if_sending(self, claim: Claim, report: Report) -> str:
        given = self._given(claim, report, "delivered")
        if not report.looked_up and self._delivered_together(given):
            return "done"
        return self._move(DELIVERED, given, {"status": "delivered"})

    def finalize_parked_if_sending(self, claim: Claim, report: Report, decision: Park) -> str:
        again = "asked again" if report.looked_up and not report.certain else "retry"
        given = self._given(claim, report, f"{again} in {decision.seconds:.1f} s")
        alone = {"status": "retrying", "seconds": decision.seconds}
        return self._move(PARKED, {**given, "seconds": decision.seconds, "route": decision.route}, alone)

    def finalize_waiting_if_sending(self, claim: Claim, report: Report, decision: Wait) -> str:
        given = self._given(claim, report, f"held for {decision.seconds:.1f} s; the attempt is not counted")
        alone = {"status": "retrying", "seconds": decision.seconds}
        return self._move(WAITING, {**given, "left": decision.left}, alone)

    def finalize_buried_if_sending(self, claim: Claim, report: Report, decision: Bury) -> str:
        given = self._given(claim, report, f"dead letter: {decision.kind}")
        alone = {"status": "unknown" if decision.kind == "unknown" else "dead", "letter": decision.kind}
        return self._move(BURIED, {**given, "letter": decision.kind, "letter_id": str(uuid7())}, alone)

    def finalize_cancelled_if_sending(self, claim: Claim, report: Report) -> str:
        given = self._given(claim, report, "cancelled, as requested")
        return self._move(CANCELLED, given, {"status": "cancelled"})

    def finalize_confirmed_if_sending(self, claim: Claim, report: Report) -> str:
        given = self._given(claim, report, "delivered: an earlier attempt reported it late")
        return self._move(CONFIRMED, given, {"status": "delivered"})

    def release_not_called_if_sending(self, claim: Claim, seconds: float) -> bool:
        return release(self._db, claim, seconds, self._now)

    def record_late(self, claim: Claim, report: Report) -> None:
        given = self._given(claim, report, "")
        del given["decision"], given["body_hash"]
        given |= {"claimed_at": claim.claimed_at, "worker": self._worker, "destination": claim.delivery.destination}
        self._db.fetch_within(LOCK_TIMEOUT_MS, LATE, **given)
        if isinstance(report.outcome, Delivered):
            given = {"id": str(claim.delivery.reminder_id), "key": claim.delivery.delivery_key, "actor": self._worker}
            self._db.fetch_within(LOCK_TIMEOUT_MS, SETTLE, **given)

    def _move(self, statement: Statement, given: dict[str, Any], alone: dict[str, Any]) -> str:
        try:
            rows = self._db.fetch_within(LOCK_TIMEOUT_MS, statement, **given)
        except LockNotAvailable:
            rows = self._db.fetch(ALONE, **{**given, **alone})
        if not rows:
            return "lapsed"
        answer, *news = rows[0]
        for each in news:
            tell(each)
        return str(answer)

    def _given(self, claim: Claim, report: Report, decision: str) -> dict[str, Any]:
        outcome = report.outcome
        return {
            "now": self._now,
            "id": str(claim.delivery.reminder_id),
            "key": claim.delivery.delivery_key,
            "number": claim.claim_number,
            "outcome": outcome.name,
            "code": _storable_number(outcome.status_code),
            "reference": _storable(outcome.reference) if isinstance(outcome, Delivered) and outcome.reference else None,
            "error_class": _storable(outcome.error_class),
            "reason": _storable(outcome.reason),
            "duration": _storable_number(report.duration_ms),
            "decision": f"{LOOK_UP}{decision}" if report.looked_up else decision,
            "body_hash": report.body_hash,
            "certain": report.certain,
            **said_by(report, disable_after=self._disable_after, breaker=self._breaker),
        }


def _storable(text: object) -> str:
    """What a provider said, as Postgres can keep it: an outcome must never be lost for the sake of its wording."""
    return str(text)[:LONGEST_REASON].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _storable_number(number: int | None) -> int | None:
    return number if isinstance(number, int) and abs(number) <= _LARGEST_INTEGER else None

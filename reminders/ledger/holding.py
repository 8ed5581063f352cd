"""What a call has said about the place it went to: a pause that it asks for, refused credentials, that it is gone or fails.

Recorded by the statement that ends the claim: from its commit on no claim for that place succeeds, however many
reminders wait. A hold is never shortened by another one.
"""

from __future__ import annotations

from typing import Any

from reminders.domain.breaker import BreakerPolicy, counts_against_health
from reminders.domain.failing import counts_as_failure
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Blocked, Rejected, Retry, Unknown
from reminders.domain.retry_policy import hold_seconds
from reminders.ledger.failing import FAILING, FAILS
from reminders.ledger.notices import NOTICE, NOTICES
from reminders.ledger.open_claim import ANSWER, ATTEMPT, CERTAIN, GUARD, LOCKED, REPORT, UNCERTAIN
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Report

HOLD_SPREAD = 5.0
"""Seconds over which what waited for a hold wakes after its end: not thousands in one millisecond."""

SPREAD = f"random() * interval '{HOLD_SPREAD} seconds'"

SAYS = {"hold_scope": "text", "hold": "float8", "gone": "boolean", **FAILS, **NOTICES}
"""The parameters of `SAID`, beside those of a report."""

_WORDS = "COALESCE(NULLIF(:reason, ''), :error_class)"
_HELD_UNTIL = "(SELECT now FROM t) + make_interval(secs => :hold)"

# CTEs after `delivery`. The address comes from the reminder: a destination has no row before somebody says something
# about it.
SAID = f"""said AS (
    INSERT INTO {{s}}.destinations AS p
        (id, tenant_id, channel, address, hold_until, hold_reason, disabled_at, disabled_reason)
    SELECT r.destination_id, r.tenant_id, r.channel, r.destination,
           CASE WHEN :hold_scope = 'destination' THEN {_HELD_UNTIL} END, CASE WHEN :hold_scope = 'destination' THEN {_WORDS} END,
           CASE WHEN :gone THEN (SELECT now FROM t) END, CASE WHEN :gone THEN {_WORDS} END
    FROM delivery JOIN {{s}}.reminders r ON r.id = delivery.reminder_id
    WHERE :gone OR :hold_scope = 'destination'
    ON CONFLICT (id) DO UPDATE
    SET hold_until = GREATEST(p.hold_until, EXCLUDED.hold_until),
        hold_reason = CASE WHEN p.hold_until >= EXCLUDED.hold_until OR EXCLUDED.hold_until IS NULL THEN p.hold_reason
                           ELSE EXCLUDED.hold_reason END,
        disabled_at = COALESCE(p.disabled_at, EXCLUDED.disabled_at),
        disabled_reason = COALESCE(p.disabled_reason, EXCLUDED.disabled_reason)
    RETURNING p.hold_until, p.id, p.tenant_id, p.channel, p.disabled_at, p.disabled_reason
), said_of_channel AS (
    INSERT INTO {{s}}.channel_holds AS c (tenant_id, channel, hold_until, hold_reason)
    SELECT r.tenant_id, r.channel, {_HELD_UNTIL}, {_WORDS}
    FROM delivery JOIN {{s}}.reminders r ON r.id = delivery.reminder_id
    WHERE :hold_scope = 'provider'
    ON CONFLICT (tenant_id, channel) DO UPDATE
    SET hold_until = GREATEST(c.hold_until, EXCLUDED.hold_until),
        hold_reason = CASE WHEN c.hold_until >= EXCLUDED.hold_until THEN c.hold_reason ELSE EXCLUDED.hold_reason END
    RETURNING c.hold_until, c.tenant_id, c.channel, c.hold_reason
), {FAILING}, {NOTICE}"""

# The attempt is not counted. It waits for the hold that stands, which may be a longer one than it asked for; `left` is
# what remains of all the waiting that is allowed.
WAITING = Statement(
    "finalize_waiting",
    f"""{LOCKED}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = {_HELD_UNTIL}, {UNCERTAIN}, body_hash = COALESCE(n.body_hash, :body_hash)
    FROM locked WHERE {GUARD} AND NOT locked.cancel_requested AND n.confirmed_late_at IS NULL
    RETURNING n.delivery_key, n.claim_number, n.claimed_at, n.reminder_id, n.worker
), {ATTEMPT}, {SAID}, noted AS (
    UPDATE {{s}}.reminders r SET last_outcome = :outcome FROM delivery WHERE r.id = delivery.reminder_id
    RETURNING r.id, r.expires_at
), stands AS (
    SELECT max(hold_until) AS until FROM (SELECT hold_until FROM said UNION ALL SELECT hold_until FROM said_of_channel) h
), bounded AS (
    SELECT noted.id, LEAST(d.give_up_at, noted.expires_at, (SELECT now FROM t) + make_interval(secs => :left)) AS give_up_at
    FROM noted JOIN {{s}}.due d ON d.id = noted.id
), woken AS (
    UPDATE {{s}}.due d
    SET status = 'pending', wake_at = LEAST(stands.until + {SPREAD}, bounded.give_up_at), give_up_at = bounded.give_up_at,
        route = 'deliver', alone_deaths = 0
    FROM bounded CROSS JOIN stands WHERE d.id = bounded.id
)
{ANSWER}
""",
    {**REPORT, **CERTAIN, **SAYS, "left": "float8"},
)


def said_by(report: Report, *, disable_after: float, breaker: BreakerPolicy) -> dict[str, Any]:
    """The values of `SAYS` for what a call, or a look-up, came to. `disable_after` is in seconds; 0 is never."""
    outcome = report.outcome
    gone = isinstance(outcome, Rejected) and outcome.gone
    return {
        "hold_scope": outcome.scope if isinstance(outcome, Blocked) else None,
        "hold": hold_seconds(outcome) if isinstance(outcome, Blocked) else None,
        "passing": isinstance(outcome, Blocked) and outcome.passing,
        "gone": gone,
        # What is gone is disabled at once, by the same row.
        "failed": counts_as_failure(outcome) and not gone and not report.looked_up,
        "disable_after": disable_after or None,
        "timed_out": isinstance(outcome, Retry | Unknown) and outcome.timed_out,
        "unwell": counts_against_health(outcome) is True,
        "trips": report.trips,
        "open_for": breaker.open_for,
        "open_longest": breaker.longest,
        "notice_id": str(uuid7()),
    }

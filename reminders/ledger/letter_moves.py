"""What an action does to the reminders that it may move: delivery, reminder, `due` and letter, in one statement each."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.ledger.letter_standing import Action, examine, pick, standing, standing_types
from reminders.ledger.statement import Statement

_SAID = {"held": "uuid[]", "letter_ids": "uuid[]", "actor": "text", "host": "text", "reason": "text"}


def _closing(state: str, more: dict[str, str]) -> str:
    """CTEs: the open letters of `picked` are closed; where the letter is closed already, or missing, a new one is."""
    columns = {
        "state": f"'{state}'", "closed_at": "(SELECT now FROM t)", "actor": ":actor", "host": ":host",
        "action_reason": ":reason", **more,
    }  # fmt: skip
    assignments = ", ".join(f"{name} = {value}" for name, value in columns.items())
    return f"""closed AS (
    UPDATE {{s}}.dead_letters l SET {assignments}
    FROM picked WHERE l.id = picked.letter_id AND l.state = 'open'
), again AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts, opened_at, {", ".join(columns)})
    SELECT (:letter_ids)[picked.number], picked.id, picked.delivery_key, picked.kind, picked.error_class,
           CASE picked.kind WHEN 'expired' THEN 'expired before it was sent' ELSE picked.reason END,
           CASE picked.kind WHEN 'expired' THEN COALESCE(picked.claim_number, 0) ELSE picked.attempts END,
           (SELECT now FROM t), {", ".join(columns.values())}
    FROM picked WHERE picked.letter_state IS DISTINCT FROM 'open'
)"""


def _picked(columns: str = "", verdict: str = "verdict IS NULL") -> str:
    return f"""picked AS MATERIALIZED (
    SELECT *{columns} FROM (SELECT *, row_number() OVER (ORDER BY since, id) AS number FROM seen
                            WHERE {verdict} AND id = ANY(:held)) numbered
)"""


def _ended_delivered(reference: str) -> str:
    return f"""delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'delivered', uncertain_since = NULL, letter_kind = NULL, finished_at = (SELECT now FROM t),
        provider_reference = COALESCE(n.provider_reference, {reference})
    FROM picked WHERE n.delivery_key = picked.delivery_key
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'delivered', last_outcome = 'delivered', finished_at = (SELECT now FROM t)
    FROM picked WHERE r.id = picked.id
)"""


# An attempt has reported its success after it was given up: nothing is left to send, nor to decide.
_SETTLED = f"""{_picked(verdict="verdict = 'confirmed_late'")}, {_ended_delivered("NULL")}, closed AS (
    UPDATE {{s}}.dead_letters l
    SET state = 'resolved', closed_at = (SELECT now FROM t), actor = :actor, host = :host, resolution = 'delivered',
        action_reason = 'its success was reported late'
    FROM picked WHERE l.id = picked.letter_id AND l.state = 'open'
)
SELECT id::text FROM picked
"""
_SETTLED_TYPES = {name: kind for name, kind in _SAID.items() if name not in {"letter_ids", "reason"}}

# A new budget under the same key. A template is chosen anew only where the pinned one could not be filled in and nothing was
# sent before: whatever may have been sent under a key must be sent in the same words. What may have killed its worker goes alone. At a rate, each has its turn as its
# `wake_at`: the ledger keeps to the rate, whatever becomes of the command.
_REDRIVEN = f"""{
    _picked(''', LEAST((SELECT now FROM t) + (number - 1) * make_interval(secs => :spacing),
           CASE WHEN NOT :ignore_expiry THEN expires_at END) AS wake_at''')
}, revived AS (
    UPDATE {{s}}.reminders r
    SET status = 'live', finished_at = NULL, expires_at = CASE WHEN NOT :ignore_expiry THEN r.expires_at END
    FROM picked WHERE r.id = picked.id
    RETURNING r.id, r.tenant_id, r.destination_id, r.expires_at
), delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = 'retrying', retry_at = picked.wake_at, letter_kind = NULL, finished_at = NULL, budget_started_at = NULL,
        uncertain_since = NULL,
        template_id = CASE WHEN picked.error_class <> 'template_fault' OR n.body_hash IS NOT NULL OR n.uncertain_since IS NOT NULL
                           THEN n.template_id END
    FROM picked WHERE n.delivery_key = picked.delivery_key
), woken AS (
    INSERT INTO {{s}}.due (id, lane, destination_id, wake_at, give_up_at, status, delivery_key, route)
    SELECT revived.id, revived.tenant_id, revived.destination_id, picked.wake_at, revived.expires_at, 'pending',
           picked.delivery_key, CASE picked.error_class WHEN 'worker_lost' THEN 'alone' ELSE 'deliver' END
    FROM picked JOIN revived ON revived.id = picked.id
), {
    _closing(
        "redriven", {"checked": ":checked", "lifted_expiry": "CASE WHEN :ignore_expiry THEN picked.expires_at END"}
    )
}
SELECT id::text, wake_at FROM picked
"""

_DISCARDED = f"""{_picked()}, {_closing("discarded", {})}
SELECT id::text FROM picked
"""

_RESOLVED = {"resolution": ":resolution", "resolution_reference": ":reference", "note": ":note"}
_RESOLVED_DELIVERED = f"""{_picked()}, {_ended_delivered(":reference")}, {_closing("resolved", _RESOLVED)}
SELECT id::text FROM picked
"""

# It is certain now, and may be sent again or rescheduled; unless somebody had asked to cancel it, who has that now.
_RESOLVED_NOT_SENT = f"""{_picked(", CASE WHEN cancel_requested_at IS NULL THEN 'dead' ELSE 'cancelled' END AS ends")}, delivery AS (
    UPDATE {{s}}.notification_deliveries n
    SET status = picked.ends, letter_kind = CASE picked.ends WHEN 'dead' THEN 'destination' END, uncertain_since = NULL
    FROM picked WHERE n.delivery_key = picked.delivery_key AND n.status <> picked.ends
), certain AS (
    UPDATE {{s}}.notification_deliveries n SET uncertain_since = NULL
    FROM picked WHERE n.delivery_key = picked.delivery_key AND n.status = picked.ends
), ended AS (
    UPDATE {{s}}.reminders r SET status = 'cancelled', finished_at = (SELECT now FROM t)
    FROM picked WHERE r.id = picked.id AND picked.ends = 'cancelled'
), {_closing("resolved", _RESOLVED)}
SELECT id::text FROM picked
"""


@dataclass(frozen=True, slots=True)
class Move:
    """What an action does to what it may move."""

    action: Action
    statement: Statement


def _move(name: str, action: Action, sql: str, types: dict[str, str]) -> Move:
    return Move(action, Statement(name, f"{standing(action)}, {sql}", {**standing_types(action), **types}))


REDRIVE = _move("dlq_redrive", "redrive", _REDRIVEN, {**_SAID, "spacing": "float8"})
DISCARD = _move("dlq_discard", "discard", _DISCARDED, _SAID)
_RESOLVE_TYPES = {**_SAID, "resolution": "text", "note": "text", "reference": "text"}
RESOLVE_DELIVERED = _move("dlq_resolve_delivered", "resolve", _RESOLVED_DELIVERED, _RESOLVE_TYPES)
RESOLVE_NOT_SENT = _move("dlq_resolve_not_sent", "resolve", _RESOLVED_NOT_SENT, _RESOLVE_TYPES)
_ACTIONS: tuple[Action, ...] = ("redrive", "discard", "resolve")
SETTLE = {action: _move(f"dlq_settle_{action}", action, _SETTLED, _SETTLED_TYPES).statement for action in _ACTIONS}
PICK = {action: pick(action) for action in _ACTIONS}
EXAMINE = {action: examine(action) for action in _ACTIONS}

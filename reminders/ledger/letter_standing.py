"""Which reminders an action on dead letters is about, and why it may not touch one of them.

One query for all: the move takes what has no verdict against it, a dry run counts it, and a refusal tells the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from reminders.ledger.review import FILTER_TYPES, matches
from reminders.ledger.statement import Statement

Action = Literal["redrive", "discard", "resolve"]

REASONS = {
    "not_found": "there is neither a dead letter nor a reminder with this id",
    "purged": "it was purged, long after it had ended; `reminders show` tells when",
    "no_match": "the other filters leave it out",
    "superseded": "the letter is about an earlier version; the reminder has been rescheduled since",
    "under_way": "it is on its way already; `reminders show` tells where",
    "delivered": "it is delivered",
    "cancelled": "it is cancelled; nothing is sent unless it is rescheduled",
    "suppressed": "consent or policy said no; no operator overrides that",
    "shadowed": "it was decided in shadow, where nothing is sent",
    "erased": "it was erased: nobody knows any more where to send it",
    "newer_letter": "this letter is closed and the reminder has a newer one: name that, or the reminder",
    "discarded": "it was discarded, which is final; `reminders reschedule` would send it under a new key",
    "cancel_requested": "somebody asked to cancel it, so nothing more is sent",
    "no_letter": "it has no letter that waits for a decision",
    "uncertain": "an attempt's outcome is unknown; find out whether it was sent, and add --checked if it was not",
    "expired": "it has expired; --ignore-expiry sends it all the same, and lifts its expiry",
    "ended": "it has expired by itself, and no letter is open",
    "resolved": "it is resolved as not sent already; a redrive sends it again",
    "confirmed_late": "an attempt has reported its success late, and somebody holds the reminder; try again",
    "busy": "another transaction holds it; try again",
    "limit": "it is beyond --limit",
}
"""Why an action leaves a reminder as it is, by the word that `--json` shows."""

_FOR_ALL = """WHEN r.id IS NULL AND EXISTS (SELECT 1 FROM {s}.keys_seen k WHERE k.reminder_id = c.reminder_id) THEN 'purged'
        WHEN r.id IS NULL THEN 'not_found'
        WHEN fits IS NOT TRUE THEN 'no_match'
        WHEN c.named_key <> r.delivery_key THEN 'superseded'
        WHEN r.status = 'live' THEN 'under_way'
        WHEN r.status NOT IN ('dead', 'expired') THEN r.status
        WHEN n.confirmed_late_at IS NOT NULL THEN 'confirmed_late'
        WHEN r.erased_at IS NOT NULL THEN 'erased'
        WHEN c.named <> l.id THEN 'newer_letter'
        WHEN l.state = 'discarded' THEN 'discarded'"""
_WAITS = "COALESCE(l.state = 'open' OR l.resolution = 'not_sent', false)"
_OF_ITS_OWN = {
    "redrive": f"""WHEN r.cancel_requested_at IS NOT NULL THEN 'cancel_requested'
        WHEN r.status = 'dead' AND NOT {_WAITS} THEN 'no_letter'
        WHEN NOT :checked AND (n.uncertain_since IS NOT NULL OR l.state = 'open' AND l.kind = 'unknown') THEN 'uncertain'
        WHEN NOT :ignore_expiry AND (r.status = 'expired' OR r.expires_at <= (SELECT now FROM t)) THEN 'expired'""",
    "discard": f"""WHEN r.status = 'expired' THEN 'ended'
        WHEN NOT {_WAITS} THEN 'no_letter'""",
    # A person may find out later that it was delivered after all.
    "resolve": f"""WHEN r.status = 'expired' THEN 'ended'
        WHEN NOT {_WAITS} THEN 'no_letter'
        WHEN :resolution = 'not_sent' AND l.state <> 'open' THEN 'resolved'""",
}
_OWN_TYPES = {
    "redrive": {"checked": "boolean", "ignore_expiry": "boolean"},
    "discard": {},
    "resolve": {"resolution": "text"},
}
_UNIVERSE = """SELECT NULL::uuid, reminder_id, NULL::uuid, NULL::text FROM {s}.dead_letters WHERE :ids IS NULL AND state = 'open'"""
_NOT_SENT = """
    UNION ALL
    SELECT NULL, l.reminder_id, NULL, NULL FROM {s}.dead_letters l JOIN {s}.reminders r ON r.id = l.reminder_id
    WHERE :ids IS NULL AND l.resolution = 'not_sent' AND r.status = 'dead' AND r.delivery_key = l.delivery_key
      AND NOT EXISTS (SELECT 1 FROM {s}.dead_letters later WHERE later.reminder_id = l.reminder_id AND later.opened_at > l.opened_at)"""
_EXPIRED = """
    UNION ALL
    SELECT NULL, id, NULL, NULL FROM {s}.reminders WHERE :ids IS NULL AND :ignore_expiry AND status = 'expired'"""
_WITHOUT_IDS = {"redrive": _UNIVERSE + _NOT_SENT + _EXPIRED, "discard": _UNIVERSE + _NOT_SENT, "resolve": _UNIVERSE}

_KIND = "CASE WHEN r.status = 'expired' THEN 'expired' ELSE l.kind END"
_ERROR = "CASE WHEN r.status = 'expired' THEN 'expired' ELSE l.error_class END"
_SINCE = "CASE WHEN r.status = 'expired' THEN r.finished_at ELSE l.opened_at END"


def standing(action: Action) -> str:
    """SQL that begins a statement: `seen` has one row per reminder, with its letter and the verdict on it.

    An id that is given is always in it, also if it leads to nothing; by filter only what waits for a decision is, and,
    for a redrive that ignores expiry, what has expired.
    """
    return f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
candidate (given, reminder_id, named, named_key) AS (
    SELECT g.id, COALESCE(l.reminder_id, g.id), l.id, l.delivery_key
    FROM unnest(:ids) AS g (id) LEFT JOIN {{s}}.dead_letters l ON l.id = g.id
    UNION ALL
    {_WITHOUT_IDS[action]}
), seen AS MATERIALIZED (
    SELECT DISTINCT ON (1) COALESCE(r.id, c.given) AS id, l.id AS letter_id, l.state AS letter_state,
           {_KIND} AS kind, {_ERROR} AS error_class, {_SINCE} AS since, l.reason, l.attempts, r.status, r.tenant_id,
           r.delivery_key, r.expires_at, r.cancel_requested_at, n.status AS delivery_status, n.claim_number, v.verdict
    FROM candidate c
    LEFT JOIN {{s}}.reminders r ON r.id = c.reminder_id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
    LEFT JOIN LATERAL (
        SELECT * FROM {{s}}.dead_letters x WHERE x.reminder_id = r.id AND x.delivery_key = r.delivery_key
        ORDER BY x.opened_at DESC, x.id DESC LIMIT 1
    ) l ON true
    CROSS JOIN LATERAL (SELECT {matches(kind=_KIND, error_class=_ERROR, since=_SINCE)} AS fits) f
    CROSS JOIN LATERAL (SELECT CASE
        {_FOR_ALL}
        {_OF_ITS_OWN[action]}
        END AS verdict) v
    WHERE c.given IS NOT NULL OR fits
    ORDER BY 1, v.verdict IS NOT NULL
)"""


def standing_types(action: Action) -> dict[str, str]:
    """The parameters that `standing` uses."""
    return {**FILTER_TYPES, "now": "timestamptz", **_OWN_TYPES[action]}


def pick(action: Action) -> Statement:
    """Lock what the action may move, at most `limit`, oldest first. Rows that somebody holds are skipped.

    The moves look again in a statement of their own, which sees what was committed before the locks were had.
    """
    return Statement(
        f"{action}_pick",
        f"""{standing(action)}
SELECT r.id::text FROM seen JOIN {{s}}.reminders r ON r.id = seen.id
WHERE COALESCE(seen.verdict = 'confirmed_late', true) AND r.status IN ('dead', 'expired')
ORDER BY seen.since, seen.id LIMIT :limit
FOR NO KEY UPDATE OF r SKIP LOCKED
""",
        {**standing_types(action), "limit": "integer"},
    )


def examine(action: Action) -> Statement:
    """What the action may move and what it may not, save those `done`: of each the first `limit`, and how many."""
    return Statement(
        f"{action}_examine",
        f"""{standing(action)}, sorted AS (
    SELECT id, letter_id, verdict, movable, count(*) OVER (PARTITION BY movable) AS of_these,
           row_number() OVER (PARTITION BY movable ORDER BY since, id) AS number
    FROM seen CROSS JOIN LATERAL (SELECT COALESCE(verdict = 'confirmed_late', true) AS movable) m
    WHERE NOT (id = ANY(:done))
)
SELECT id::text, letter_id::text, verdict, movable, of_these FROM sorted WHERE number <= :limit ORDER BY movable, number
""",
        {**standing_types(action), "done": "uuid[]", "limit": "integer"},
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reminder that an action left as it was, and why; `id` is what was given if there is no reminder."""

    id: UUID
    letter_id: UUID | None
    reason: str

    @property
    def detail(self) -> str:
        return REASONS[self.reason]

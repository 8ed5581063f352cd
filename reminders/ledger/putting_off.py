"""Putting a reminder off: whose place is held, it waits in the ledger for the hold's end; for which a cap has no token, for
its turn. Nothing is burnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from reminders.domain.turns import Refused
from reminders.ledger.claim_rules import ENDS, HALF_OPEN, HELD, PLACE, RULES
from reminders.ledger.database import Database
from reminders.ledger.holding import SPREAD
from reminders.ledger.rate_rules import PER_SECOND, uncalled
from reminders.ledger.statement import Statement
from reminders.ledger.taking_back import HOLD_AGAIN_IF_LET_GO
from reminders.pipeline.admission import UNCALLED

MAX_WAIT = 72 * 3600.0
"""Seconds for which a reminder may be put off in all, unless the settings say otherwise."""

# The first time it is put off bounds how long it may wait in all, also if it never gets an attempt.
PUT_OFF_IF_HELD = Statement(
    "put_off",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT d.id, GREATEST(p.hold_until, c.hold_until, CASE WHEN {HALF_OPEN} THEN (SELECT now FROM t) + interval '5 seconds' END) AS until,
           LEAST(d.give_up_at, r.expires_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS give_up_at,
           COALESCE(c.hold_until > (SELECT now FROM t), false) AND c.hold_until >= COALESCE(p.hold_until, c.hold_until) AS whole_channel
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published') AND {HELD} AND NOT {ENDS}
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'pending', wake_at = LEAST(held.until + {SPREAD}, held.give_up_at), give_up_at = held.give_up_at, ready_at = NULL
FROM held WHERE d.id = held.id
RETURNING CASE WHEN held.whole_channel THEN 'channel_held' ELSE 'destination_held' END
""",
    {**RULES, "key": "text", "now": "timestamptz", "id": "uuid", "max_wait": "float8"},
)

# The scan had given it a turn, at the price of every cap that covers it: they have it back. The cap that refused has no other
# turn before it has a token: what was woken for one would be refused as well.
_UNCALLED = uncalled("(SELECT r.tenant_id FROM {s}.reminders r WHERE r.id = w.id)")
_MINE = "w.id = :id AND w.delivery_key = :key AND w.status IN ('leased', 'published')"
WAIT_FOR_TURN = Statement(
    "wait_for_turn",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
mine AS MATERIALIZED (
    SELECT id, LEAST((SELECT now FROM t) + make_interval(secs => :seconds), give_up_at) AS wake_at,
           LEAST(give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS give_up_at, published_at
    FROM {{s}}.due w WHERE {_MINE} AND NOT {_UNCALLED}
    FOR NO KEY UPDATE SKIP LOCKED
), parked AS (
    UPDATE {{s}}.due d
    SET status = 'pending', rate_id = :rate, wake_at = mine.wake_at, turn_at = mine.wake_at, give_up_at = mine.give_up_at,
        waits_since = COALESCE(LEAST(d.waits_since, mine.published_at), (SELECT now FROM t))
    FROM mine WHERE d.id = mine.id
    RETURNING d.id
), given_back AS (
    UPDATE {{s}}.rates z
    SET next_at = GREATEST(z.next_at - make_interval(secs => 1 / {PER_SECOND}),
                           CASE WHEN z.id = :rate THEN (SELECT now FROM t) + make_interval(secs => NULLIF(:token_in, 0)) END)
    FROM parked WHERE z.id = ANY(:rates) AND z.per_second IS NOT NULL
)
SELECT 'rate_limited' FROM parked
UNION ALL
SELECT '{UNCALLED}' FROM {{s}}.due w WHERE {_MINE} AND {_UNCALLED}
""",
    {
        "now": "timestamptz", "id": "uuid", "key": "text", "rate": "uuid", "rates": "uuid[]", "seconds": "float8",
        "token_in": "float8", "max_wait": "float8",
    },
)  # fmt: skip


class PostgresTurns:
    """`reminders.pipeline.admission.TurnLedger` on Postgres. `max_wait` is the seconds for which it may be put off in all."""

    def __init__(self, database: Database, *, max_wait: float = MAX_WAIT, now: datetime | None = None) -> None:
        self._db = database
        self._max_wait = max_wait
        self._now = now

    def wait_for_turn(self, reminder_id: UUID, delivery_key: str, refused: Refused, caps: Sequence[UUID]) -> str:
        rows = self._db.fetch(
            WAIT_FOR_TURN,
            now=self._now,
            id=str(reminder_id),
            key=delivery_key,
            rate=str(refused.cap),
            rates=[str(each) for each in caps],
            seconds=refused.seconds,
            token_in=refused.token_in,
            max_wait=self._max_wait,
        )
        # Else it has moved on meanwhile, or somebody holds the row: then its deadline brings it back.
        return str(rows[0][0]) if rows else "busy"

    def hold_again(self, reminder_id: UUID, delivery_key: str, refused: Refused, caps: Sequence[UUID]) -> str:
        given = {"now": self._now, "id": str(reminder_id), "key": delivery_key, "pause": str(refused.cap)}
        rows = self._db.fetch(HOLD_AGAIN_IF_LET_GO, **given, rates=[str(each) for each in caps])
        return str(rows[0][0]) if rows else "busy"

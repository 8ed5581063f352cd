"""Taking turns back: what a drain or a resume has let go at its rate, and nobody has called yet, is held again.

At its claim, where others of it have just been called; or since the drain is stopped. Nothing is burnt.
"""

from __future__ import annotations

from reminders.ledger.database import Database
from reminders.ledger.pause_rules import WAIT_LEFT
from reminders.ledger.rate_rules import PER_SECOND, uncalled
from reminders.ledger.statement import Statement
from reminders.pipeline.admission import UNCALLED

BATCH = 500

_HELD = f"""UPDATE {{s}}.due d
    SET status = 'held', wake_at = NULL, hold_id = d.let_go_by, let_go_by = NULL, held_at = (SELECT now FROM t), wait_left = {WAIT_LEFT},
        give_up_at = picked.expires_at
    FROM picked WHERE d.id = picked.id"""

# It is given another turn, by its age. The turns that caps gave it besides are others' now.
_MINE = "w.id = :id AND w.delivery_key = :key AND w.status IN ('leased', 'published') AND w.let_go_by = :pause"
_UNCALLED = uncalled("(SELECT r.tenant_id FROM {s}.reminders r WHERE r.id = w.id)")
HOLD_AGAIN_IF_LET_GO = Statement(
    "hold_again",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
picked AS MATERIALIZED (
    SELECT w.id, r.expires_at FROM {{s}}.due w JOIN {{s}}.reminders r ON r.id = w.id WHERE {_MINE} AND NOT {_UNCALLED}
    FOR NO KEY UPDATE OF w SKIP LOCKED
), held AS (
    {_HELD}
    RETURNING d.id
), given_back AS (
    UPDATE {{s}}.rates z SET next_at = z.next_at - make_interval(secs => 1 / {PER_SECOND})
    FROM held WHERE z.id = ANY(:rates) AND z.per_second IS NOT NULL
)
SELECT 'rate_limited' FROM held
UNION ALL
SELECT '{UNCALLED}' FROM {{s}}.due w WHERE {_MINE} AND {_UNCALLED}
""",
    {"now": "timestamptz", "id": "uuid", "key": "text", "pause": "uuid", "rates": "uuid[]"},
)

TAKE_BACK_TURNS = Statement(
    "take_back_turns",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
picked AS MATERIALIZED (
    SELECT w.id, r.expires_at FROM {{s}}.due w JOIN {{s}}.reminders r ON r.id = w.id
    WHERE w.let_go_by = :pause AND w.status IN ('pending', 'leased', 'published') LIMIT :limit
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
{_HELD}
RETURNING 1
""",
    {"pause": "uuid", "limit": "integer"},
)


def take_back_turns(database: Database, pause_id: str) -> None:
    """Hold again all that has been let go and not been claimed. What somebody has locked just then keeps its turn."""
    while database.fetch_in_loops(TAKE_BACK_TURNS, pause=pause_id, limit=BATCH):
        # Crash here: the others keep their turns, and go unless the drain is said to stop once more.
        continue

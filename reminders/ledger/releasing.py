"""Letting go what a pause has held: the scan's sweep over held rows whose pause has ended."""

from __future__ import annotations

from datetime import datetime

from reminders.ledger.database import Database
from reminders.ledger.ownership import OWNS_LANE, SHARED
from reminders.ledger.pause_rules import ALIKE, COVERS, FITS
from reminders.ledger.rate_rules import bounded, near
from reminders.ledger.statement import Statement
from reminders.ledger.tenant_registry import ALONE

_OF_ITS_KIND = f"{ALIKE} AND y.by_mode = z.by_mode AND (y.drain_until IS NULL) = (z.drain_until IS NULL)"

AHEAD = 10.0
"""Seconds ahead for which turns are given out at a rate: a later word on the rate is heeded within it."""

GOING = "(d.status IN ('leased', 'published') OR d.status = 'pending' AND d.wake_at = d.let_go_at)"
"""Of a row `d` that was let go: whether it has its turn, or is on its way; not so what was put off since, as its place is held."""

# Held rows say which pauses there are to ask about, so a row that was held by a look older than its pause's end is found
# as well as any; without held rows it is one look into an empty index. The pause's own row is locked first: two scans
# give no turn out twice. Nothing is waited for, save a late report's stamp on a delivery. The time in which a row was held
# counts neither against the bound that it was given by waiting, nor against its budget. What was paused again before the
# first pause had let all go is held by two of exactly the same: they let go one after the other, or their rates would add up. What
# a drain lets go is a backlog of its own: what a pause of the same held since does not wait behind it, nor what was held while the tenant was off behind either. While another pause covers all
# that is let go at a rate, it stays where it is, which is less work. Of what another covers a part of, each row is held by that one, and
# remembers the rate that was said last: to whose hold it goes back if that one ends without a rate.
# Turns that nobody has taken are given to nobody else: while workers are away, no more are given than for the next seconds. The
# scanners of other dispatchers see to what is theirs.
RELEASE_IF_ENDED = Statement(
    "release_held",
    f"""
WITH RECURSIVE t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now), walk AS (
    (SELECT hold_id FROM {{s}}.due WHERE hold_id IS NOT NULL ORDER BY hold_id LIMIT 1)
    UNION ALL
    SELECT following.hold_id
    FROM walk CROSS JOIN LATERAL (
        SELECT d.hold_id FROM {{s}}.due d WHERE d.hold_id > walk.hold_id ORDER BY d.hold_id LIMIT 1
    ) following
), holding AS MATERIALIZED (
    SELECT z.* FROM walk JOIN {{s}}.pauses z ON z.id = walk.hold_id
    WHERE z.ended_at IS NOT NULL AND z.stopped_at IS NULL
      AND (z.rate IS NULL OR NOT EXISTS (SELECT 1 FROM {{s}}.pauses y WHERE y.ended_at IS NULL AND {COVERS}))
), locked AS MATERIALIZED (
    SELECT z.id, {bounded("z.rate")} AS rate, {near("GREATEST(z.next_at, before.next_at, (SELECT now FROM t))")} AS start
    FROM holding JOIN {{s}}.pauses z ON z.id = holding.id
    LEFT JOIN LATERAL (
        SELECT max(y.next_at) AS next_at FROM {{s}}.pauses y
        WHERE z.rate IS NOT NULL AND y.paused_at < z.paused_at AND y.released_at > z.ended_at AND {_OF_ITS_KIND}
    ) before ON true
    WHERE NOT EXISTS (SELECT 1 FROM holding y WHERE (y.paused_at, y.id) < (z.paused_at, z.id) AND {_OF_ITS_KIND})
    FOR NO KEY UPDATE OF z SKIP LOCKED
), ended AS MATERIALIZED (
    SELECT id, start, make_interval(secs => COALESCE(1 / rate, 0)) AS spacing, rate IS NOT NULL AS at_rate,
           CASE WHEN rate IS NULL THEN :limit
                ELSE GREATEST(0, LEAST(:limit, 1 + floor(rate * extract(epoch FROM
                         (SELECT now FROM t) + interval '{AHEAD} seconds' - start)::float8),
                     1 + floor(rate * {AHEAD}) - (SELECT count(*) FROM {{s}}.due d WHERE d.let_go_by = locked.id AND {GOING}
                                                  AND (NOT (SELECT {SHARED}) OR {OWNS_LANE}))))::integer
           END AS number
    FROM locked
), picked AS MATERIALIZED (
    SELECT ended.id AS pause_id, ended.start, ended.spacing, ended.at_rate, held.*
    FROM ended CROSS JOIN LATERAL (
        SELECT d.id, d.delivery_key, d.held_at, d.wait_left, d.rated_by, COALESCE(d.due_since, d.held_at) AS due_since FROM {{s}}.due d
        WHERE d.hold_id = ended.id ORDER BY COALESCE(d.due_since, d.held_at) LIMIT ended.number
        FOR NO KEY UPDATE OF d SKIP LOCKED
    ) held
), turns AS MATERIALIZED (
    SELECT picked.*, r.expires_at, other.id AS other_id,
           CASE WHEN picked.at_rate THEN picked.pause_id ELSE picked.rated_by END AS rate_said,
           picked.start + picked.spacing * (count(*) FILTER (WHERE other.id IS NULL)
               OVER (PARTITION BY picked.pause_id ORDER BY picked.due_since, picked.id) - 1) AS turn
    FROM picked JOIN {{s}}.reminders r ON r.id = picked.id
    LEFT JOIN LATERAL (
        SELECT COALESCE((SELECT z.id FROM {{s}}.pauses z WHERE z.ended_at IS NULL AND {FITS} ORDER BY z.paused_at LIMIT 1),
                        CASE WHEN NOT picked.at_rate THEN picked.rated_by END) AS id
    ) other ON true
), moved AS (
    UPDATE {{s}}.due d
    SET status = CASE WHEN turns.other_id IS NULL THEN 'pending' ELSE 'held' END, hold_id = turns.other_id,
        ready_at = CASE WHEN EXISTS (SELECT 1 FROM {{s}}.pauses z WHERE z.id = d.hold_id AND z.drain_until IS NOT NULL) THEN d.ready_at END,
        held_at = CASE WHEN turns.other_id IS NOT NULL THEN d.held_at END,
        rated_by = CASE WHEN turns.other_id IS NOT NULL THEN NULLIF(turns.rate_said, turns.other_id) END,
        let_go_by = CASE WHEN turns.other_id IS NULL AND turns.at_rate THEN turns.pause_id END,
        due_since = CASE WHEN turns.other_id IS NOT NULL OR turns.at_rate THEN turns.due_since END,
        wait_left = CASE WHEN turns.other_id IS NOT NULL THEN d.wait_left END,
        wake_at = CASE WHEN turns.other_id IS NULL THEN LEAST(turns.turn, turns.turn + turns.wait_left, turns.expires_at) END,
        let_go_at = LEAST(turns.turn, turns.turn + turns.wait_left, turns.expires_at),
        give_up_at = CASE WHEN turns.other_id IS NULL THEN LEAST(turns.turn + turns.wait_left, turns.expires_at) ELSE d.give_up_at END
    FROM turns WHERE d.id = turns.id
), budget AS (
    UPDATE {{s}}.notification_deliveries n SET held_for = COALESCE(n.held_for, '0') + (turns.turn - turns.held_at)
    FROM turns
    WHERE n.delivery_key = turns.delivery_key AND turns.other_id IS NULL AND n.budget_started_at IS NOT NULL
), noted AS (
    UPDATE {{s}}.pauses z
    SET released_at = (SELECT now FROM t), next_at = COALESCE(given.last_turn + given.spacing, z.next_at)
    FROM (SELECT pause_id, spacing, max(turn) FILTER (WHERE other_id IS NULL) AS last_turn FROM turns GROUP BY pause_id, spacing) given
    WHERE z.id = given.pause_id
)
SELECT count(*) FROM picked
""",
    {"now": "timestamptz", "limit": "integer", "dispatcher": "text"},
)


def release_held(
    database: Database, limit: int, now: datetime | None = None, dispatcher: str = ALONE.dispatcher
) -> int:
    """Let up to `limit` rows of each ended pause go, those that are due longest first; how many were looked at in all.

    At a rate, each has its turn as its `wake_at`, and turns are given out for the next `AHEAD` seconds only, those included that
    have not been taken, of what is `dispatcher`'s. A row that another pause covers is held by that one from now on, and goes back if that one ends without a rate; but what is
    let go at a rate stays as it is while another pause covers all of it. Of pauses that cover exactly the same, the first one lets go before the others.
    """
    return int(database.fetch_in_loops(RELEASE_IF_ENDED, now=now, limit=limit, dispatcher=dispatcher)[0][0])

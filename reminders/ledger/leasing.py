"""Leasing: the scan's temporary hold on due rows, in their order or lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from reminders.domain.lanes import SEPARATOR, tenant_of
from reminders.ledger.database import Row
from reminders.ledger.holding import SPREAD
from reminders.ledger.ownership import EPOCH_OF_LANE, OWNS_LANE, SHARED
from reminders.ledger.pause_rules import ACTIVE, FITS, WAIT_LEFT
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Leased, Message

# `(SELECT now FROM t)` is evaluated once per statement and may bound an index scan; `clock_timestamp()` itself may not.
T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

# Of a live row: it may be leased. One that is past its `give_up_at` is for `reminders.ledger.ending`.
_READY = """d.wake_at <= (SELECT now FROM t) AND d.status IN ('pending', 'leased', 'published')
      AND (d.give_up_at IS NULL OR d.give_up_at > (SELECT now FROM t)) AND (:with_retries OR d.route <> 'retry')"""

# Since when it is due: what was let go, or waits for its turn, has been so for longer than its time to wake says. What is on
# its way wakes when it is looked at again; its reminder says since when it is due.
_SINCE = """COALESCE(d.due_since, CASE WHEN d.status <> 'pending' THEN NULL WHEN d.turn_at = d.wake_at THEN d.waits_since ELSE d.wake_at END)"""

_HELD = "LEFT JOIN {s}.destinations p ON p.id = d.destination_id AND p.hold_until > (SELECT now FROM t)"

# The pause that covers a row `f`, if any; else the drain whose backlog it belongs to, unless that has let it go. While there is none at all, `reminders` is not even looked at.
_PAUSED = f"""LEFT JOIN LATERAL (
        SELECT z.id AS hold_id, r.expires_at, COALESCE(f.since, GREATEST(r.due_at, n.retry_at)) AS due_since,
               CASE WHEN z.drain_until IS NULL THEN f.let_go_by END AS rated_by
        FROM {{s}}.reminders r CROSS JOIN ({ACTIVE}) z LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
        WHERE EXISTS ({ACTIVE}) AND r.id = f.id AND {FITS}
          AND (z.drain_until IS NULL OR CASE WHEN f.let_go_by = z.id THEN z.stopped_at IS NOT NULL ELSE f.wake_at <= z.drain_until END)
        ORDER BY z.drain_until IS NOT NULL, z.paused_at LIMIT 1
    ) paused ON true"""

# Since when nothing but our own doing stands before the call: its due time, or the end of what it rightly waited for. It is
# kept through leases that ended and claims that were given back, which are ours.
_READY_SINCE = """WHEN d.status = 'pending' AND (d.ready_at IS NULL OR d.quiet_until = d.wake_at OR d.turn_at = d.wake_at)
                  THEN d.wake_at ELSE d.ready_at"""

# What goes to a destination that is held is put off as a refused claim would put it off, without a message for each; what
# is paused is held, and so is what a drain works off, since it was due: its turn comes by that. What was let go at a rate goes on at
# it after a pause, while a drain has a rate of its own.
_TO_LEASED = f"""UPDATE {{s}}.due d
SET status = CASE WHEN picked.hold_id IS NOT NULL THEN 'held' WHEN picked.held_until IS NULL THEN 'leased' ELSE 'pending' END,
    lease_token = :token,
    wake_at = CASE WHEN picked.hold_id IS NULL
                   THEN LEAST(COALESCE(picked.held_until + {SPREAD}, (SELECT now FROM t) + make_interval(secs => :seconds)),
                              d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) END,
    give_up_at = CASE WHEN picked.hold_id IS NOT NULL THEN picked.expires_at
                      WHEN picked.held_until IS NULL THEN d.give_up_at
                      ELSE LEAST(d.give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) END,
    ready_at = CASE WHEN picked.held_until IS NOT NULL THEN NULL {_READY_SINCE} END, epoch = {EPOCH_OF_LANE}, hold_id = picked.hold_id, held_at = CASE WHEN picked.hold_id IS NOT NULL THEN (SELECT now FROM t) END,
    let_go_by = CASE WHEN picked.hold_id IS NULL THEN d.let_go_by END, due_since = CASE WHEN picked.hold_id IS NULL THEN d.due_since ELSE picked.due_since END,
    wait_left = CASE WHEN picked.hold_id IS NOT NULL THEN {WAIT_LEFT} END, rated_by = picked.rated_by"""

_LEASING = {
    "now": "timestamptz",
    "limit": "integer",
    "seconds": "float8",
    "token": "uuid",
    "max_wait": "float8",
    "with_retries": "boolean",
}

# The select stands in a materialised CTE: inside `id IN (...)` a nested-loop plan may run it again and lease more.
LEASE = Statement(
    "lease",
    f"""
WITH {T}, found AS MATERIALIZED (
    SELECT d.id, d.wake_at, d.let_go_by, {_SINCE} AS since, p.hold_until AS held_until FROM {{s}}.due d {_HELD}
    WHERE {_READY} AND (NOT (SELECT {SHARED}) OR {OWNS_LANE})
    ORDER BY d.wake_at LIMIT :limit
    FOR NO KEY UPDATE OF d SKIP LOCKED
), picked AS (
    SELECT f.*, paused.hold_id, paused.due_since, paused.expires_at, paused.rated_by FROM found f {_PAUSED}
)
{_TO_LEASED}
FROM picked WHERE d.id = picked.id
RETURNING d.id::text, d.delivery_key, d.route, d.lane, picked.wake_at, d.status, d.let_go_by::text, NULL
""",
    {**_LEASING, "dispatcher": "text"},
)

LANES_WITH_DUE_WORK = Statement(
    "lanes_with_due_work",
    f"""
WITH RECURSIVE {T}, walk AS (
    (SELECT lane, wake_at FROM {{s}}.due ORDER BY lane, wake_at LIMIT 1)
    UNION ALL
    SELECT following.lane, following.wake_at
    FROM walk CROSS JOIN LATERAL (
        SELECT d.lane, d.wake_at FROM {{s}}.due d WHERE d.lane > walk.lane ORDER BY d.lane, d.wake_at LIMIT 1
    ) following
)
SELECT lane FROM walk d WHERE wake_at <= (SELECT now FROM t) AND (NOT (SELECT {SHARED}) OR {OWNS_LANE})
""",
    {"now": "timestamptz", "dispatcher": "text"},
)

# A destination holds its messages on their way and its open claims. A row is passed over where its destination would hold
# more than it may; rows without an id say where that was.
LEASE_FROM_LANES = Statement(
    "lease_from_lanes",
    f"""
WITH {T}, found AS MATERIALIZED (
    SELECT head.*
    FROM unnest(:lanes, :takes) AS l (lane, take)
    CROSS JOIN LATERAL (
        SELECT d.id, d.wake_at, d.lane, d.destination_id, d.let_go_by, {_SINCE} AS since, p.hold_until AS held_until
        FROM {{s}}.due d {_HELD} WHERE d.lane = l.lane AND {_READY}
        ORDER BY d.wake_at LIMIT l.take
        FOR NO KEY UPDATE OF d SKIP LOCKED
    ) head
    LIMIT :limit
), holding AS (
    SELECT destination_id, count(*) AS number FROM {{s}}.due
    WHERE :cap IS NOT NULL AND status IN ('published', 'sending') AND wake_at > (SELECT now FROM t) GROUP BY destination_id
), picked AS (
    SELECT f.*, paused.hold_id, paused.due_since, paused.expires_at, paused.rated_by,
           paused.hold_id IS NOT NULL OR f.held_until IS NOT NULL OR :cap IS NULL OR f.destination_id IS NULL
           OR row_number() OVER (PARTITION BY f.destination_id ORDER BY f.wake_at) + COALESCE(h.number, 0) <= :cap AS fits
    FROM found f LEFT JOIN holding h USING (destination_id) {_PAUSED}
), leased AS (
    {_TO_LEASED}
    FROM picked WHERE d.id = picked.id AND picked.fits
    RETURNING d.id::text, d.delivery_key, d.route, d.lane, picked.wake_at, d.status, d.let_go_by::text
)
SELECT leased.*, NULL FROM leased
UNION ALL
SELECT NULL, NULL, NULL, lane, NULL, NULL, NULL, destination_id::text FROM picked WHERE NOT fits GROUP BY lane, destination_id
""",
    {**_LEASING, "lanes": "text[]", "takes": "integer[]", "cap": "integer"},
)

# Found once, a burst of one destination costs nobody else a look any more: from its own lane it is taken as it fits.
SET_ASIDE = Statement(
    "set_aside",
    f"""
WITH {T}, wanted AS MATERIALIZED (
    SELECT * FROM unnest(:lanes, :destinations) AS w (lane, destination_id)
), head AS MATERIALIZED (
    SELECT h.id
    FROM (SELECT DISTINCT lane FROM wanted) l
    CROSS JOIN LATERAL (
        SELECT d.id, d.lane, d.destination_id FROM {{s}}.due d WHERE d.lane = l.lane AND {_READY} ORDER BY d.wake_at LIMIT :limit
    ) h
    JOIN wanted w ON w.lane = h.lane AND w.destination_id = h.destination_id
), mine AS MATERIALIZED (
    SELECT d.id FROM head JOIN {{s}}.due d USING (id) WHERE d.lane = ANY(:lanes) AND {_READY} FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d SET lane = d.lane || chr({ord(SEPARATOR)}) || d.destination_id FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"now": "timestamptz", "lanes": "text[]", "destinations": "uuid[]", "limit": "integer", "with_retries": "boolean"},
)

IN_FLIGHT = Statement(
    "in_flight",
    f"""
WITH {T}, flight AS MATERIALIZED (
    SELECT lane, destination_id FROM {{s}}.due
    WHERE status IN ('published', 'sending') AND wake_at > (SELECT now FROM t)
)
SELECT lane, NULL, count(*) FROM flight GROUP BY lane
UNION ALL
SELECT NULL, destination_id::text, count(*) FROM flight WHERE destination_id = ANY(:destinations) GROUP BY destination_id
""",
    {"now": "timestamptz", "destinations": "uuid[]"},
)


def leased(rows: list[Row], limit: int = 0, asked: Sequence[str] = ()) -> Leased:
    """What a lease came to, by the rows of its answer; `asked` are the lanes it asked, if any, for `limit` rows in all."""
    messages = [row for row in rows if row[5] == "leased"]
    passed_over = [(row[3], UUID(row[7])) for row in rows if row[7] is not None]
    answered = {row[3] for row in rows}
    # With the limit reached, or places in it taken by what was passed over, some lanes were not asked at all.
    empty = frozenset(asked) - answered if not passed_over and len(rows) < limit else frozenset()
    return Leased(
        _in_turn(messages),
        passed_over,
        empty,
        put_off=len(rows) - len(messages) - len(passed_over),
        tenants=frozenset(tenant_of(row[3]) for row in rows),
    )


def _in_turn(rows: list[Row]) -> list[Message]:
    """Messages in the order they go out: every lane's first, then every lane's second, each lane oldest first."""
    rows.sort(key=lambda row: row[4])
    turns: dict[str, int] = {}
    ranked = []
    for reminder_id, key, route, lane, wake_at, _, let_go_by, _ in rows:
        turn = turns[lane] = turns.get(lane, -1) + 1
        caps = () if let_go_by is None else (UUID(let_go_by),)
        ranked.append((turn, wake_at, Message(UUID(reminder_id), key, route, caps, wake_at)))
    ranked.sort(key=lambda entry: entry[:2])
    return [message for *_, message in ranked]

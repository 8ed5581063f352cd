"""Which reminders are due and not sent, and why: the rows that `reminders.ledger.overdue` counts, as SQL.

Every set of candidates ends at `:most`, in the order of an index that holds it and little else, so that a look at a ledger
of any size costs what is late in it, and no more than `:most` of each.
"""

from __future__ import annotations

from reminders.domain.lanes import SEPARATOR
from reminders.ledger.giving_back import GIVEN_BACK
from reminders.ledger.holding import HOLD_SPREAD
from reminders.ledger.rate_rules import WAITS

PLACES = 500
"""Destinations, and channels, that are held, of which what waits for them is looked for."""
OF_A_PLACE = 2000
"""Rows of a tenant's lane that are looked through for each of them."""
MOST_PLACES = 100_000
"""Destinations of which anything is known that are looked through for those that are held."""
MOST_LANES = 20_000
"""Lanes that are looked through for those of one tenant."""

LATE_TYPES = {
    "most": "integer", "tenant": "text", "soon": "float8", "window": "float8", "slow": "float8", "ours": "text[]",
    "dispatcher": "text", "away": "float8",
}  # fmt: skip
"""The parameters of both.

`soon` is how far ahead leases and what was put off for lack of room may wake, `window` over how long the trend is told,
`slow` after how long a call is slow, `away` after how long without a word a dispatcher's scanners count as gone: seconds.
`ours` are the error classes that say nothing against a destination.
"""

_TENANT_OF_D = f"split_part(d.lane, chr({ord(SEPARATOR)}), 1)"

# Attempts on record, newest first: where there are too many, the window is the shorter one that they reach back to.
_SINCE = """t AS MATERIALIZED (SELECT clock_timestamp() AS now),
recent AS MATERIALIZED (
    SELECT reminder_id, recorded_at FROM {s}.delivery_attempts
    WHERE recorded_at > (SELECT now FROM t) - make_interval(secs => :window) ORDER BY recorded_at DESC LIMIT :most
), began AS MATERIALIZED (
    SELECT CASE WHEN count(*) < :most THEN (SELECT now FROM t) - make_interval(secs => :window) ELSE min(recorded_at) END AS at
    FROM recent
)"""

# What a held place keeps waiting wakes after the hold's end, in its tenant's lane or in one of the place's own. A row that was
# never leased has its own time to wake, and is not late.
_ALL = f"""head AS MATERIALIZED (
    SELECT id FROM {{s}}.due WHERE wake_at <= (SELECT now FROM t) ORDER BY wake_at LIMIT :most
), flight AS MATERIALIZED (
    SELECT id FROM {{s}}.due WHERE status IN ('published', 'sending') ORDER BY wake_at LIMIT :most
), soon AS MATERIALIZED (
    SELECT id, lease_token FROM {{s}}.due
    WHERE wake_at > (SELECT now FROM t) AND wake_at <= (SELECT now FROM t) + make_interval(secs => :soon)
    ORDER BY wake_at LIMIT :most
), holds AS (
    (SELECT hold_id FROM {{s}}.due WHERE hold_id IS NOT NULL ORDER BY hold_id LIMIT 1)
    UNION ALL
    SELECT following.hold_id FROM holds CROSS JOIN LATERAL (
        SELECT d.hold_id FROM {{s}}.due d WHERE d.hold_id > holds.hold_id ORDER BY d.hold_id LIMIT 1) following
), held AS MATERIALIZED (
    SELECT h.id FROM holds CROSS JOIN LATERAL (
        SELECT d.id FROM {{s}}.due d WHERE d.hold_id = holds.hold_id ORDER BY COALESCE(d.due_since, d.held_at) LIMIT :most) h
    LIMIT :most
), parked AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE status = 'pending' AND attempts > 0 AND wake_at > (SELECT now FROM t) ORDER BY wake_at LIMIT :most
), quiet AS MATERIALIZED (
    SELECT id FROM {{s}}.due
    WHERE status = 'pending' AND quiet_until = wake_at AND wake_at > (SELECT now FROM t) ORDER BY wake_at LIMIT :most
), turns AS MATERIALIZED (
    SELECT d.id FROM {{s}}.due d WHERE {WAITS} LIMIT :most
), places AS MATERIALIZED (
    SELECT id, tenant_id, hold_until FROM (SELECT * FROM {{s}}.destinations LIMIT {MOST_PLACES}) p
    WHERE hold_until > (SELECT now FROM t) LIMIT {PLACES}
), channels AS MATERIALIZED (
    SELECT tenant_id, hold_until FROM {{s}}.channel_holds WHERE hold_until > (SELECT now FROM t) LIMIT {PLACES}
), blocked AS MATERIALIZED (
    SELECT w.id FROM places p CROSS JOIN LATERAL (
        SELECT d.id, d.destination_id, d.lease_token FROM {{s}}.due d
        WHERE d.lane = ANY(ARRAY[p.tenant_id, p.tenant_id || chr({ord(SEPARATOR)}) || p.id]) AND d.wake_at > (SELECT now FROM t)
          AND d.wake_at <= p.hold_until + interval '{HOLD_SPREAD} seconds' LIMIT {OF_A_PLACE}) w
    WHERE w.destination_id = p.id AND w.lease_token IS NOT NULL
    UNION
    SELECT w.id FROM channels c CROSS JOIN LATERAL (
        SELECT d.id, d.lease_token FROM {{s}}.due d WHERE d.lane = c.tenant_id AND d.wake_at > (SELECT now FROM t)
          AND d.wake_at <= c.hold_until + interval '{HOLD_SPREAD} seconds' LIMIT {OF_A_PLACE}) w
    WHERE w.lease_token IS NOT NULL
), found AS MATERIALIZED (
    SELECT id FROM head UNION SELECT id FROM flight UNION SELECT id FROM soon WHERE lease_token IS NOT NULL
    UNION SELECT id FROM held UNION SELECT id FROM parked UNION SELECT id FROM quiet UNION SELECT id FROM turns
    UNION SELECT id FROM blocked
), cut AS (
    SELECT GREATEST((SELECT count(*) FROM head), (SELECT count(*) FROM flight), (SELECT count(*) FROM soon), (SELECT count(*) FROM held),
                    (SELECT count(*) FROM parked), (SELECT count(*) FROM quiet), (SELECT count(*) FROM turns)) >= :most
           OR (SELECT count(*) FROM places) >= {PLACES} OR (SELECT count(*) FROM channels) >= {PLACES} AS is_cut
), fresh AS (
    SELECT count(*) AS number FROM (
        SELECT 1 FROM {{s}}.due WHERE wake_at > (SELECT at FROM began) AND wake_at <= (SELECT now FROM t) LIMIT 10 * :most) f
)"""

# One tenant's lanes, and of each what is overdue, what is held, and what wakes later: the order in which the index has them.
_OF_TENANT = f"""walk AS (
    (SELECT lane FROM {{s}}.due ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT following.lane FROM walk CROSS JOIN LATERAL (
        SELECT d.lane FROM {{s}}.due d WHERE d.lane > walk.lane ORDER BY d.lane LIMIT 1) following
), lanes AS MATERIALIZED (
    SELECT lane FROM (SELECT lane FROM walk LIMIT {MOST_LANES}) d WHERE {_TENANT_OF_D} = :tenant
), head AS MATERIALIZED (
    SELECT h.id FROM lanes CROSS JOIN LATERAL (
        SELECT d.id FROM {{s}}.due d WHERE d.lane = lanes.lane AND d.wake_at <= (SELECT now FROM t) ORDER BY d.wake_at LIMIT :most) h
    LIMIT :most
), held AS MATERIALIZED (
    SELECT h.id FROM lanes CROSS JOIN LATERAL (
        SELECT d.id FROM {{s}}.due d WHERE d.lane = lanes.lane AND d.wake_at IS NULL LIMIT :most) h
    LIMIT :most
), later AS MATERIALIZED (
    SELECT h.id, h.lease_token FROM lanes CROSS JOIN LATERAL (
        SELECT d.id, d.lease_token FROM {{s}}.due d
        WHERE d.lane = lanes.lane AND d.wake_at > (SELECT now FROM t) ORDER BY d.wake_at LIMIT :most) h
    LIMIT :most
), found AS MATERIALIZED (
    SELECT id FROM head UNION SELECT id FROM held UNION SELECT id FROM later WHERE lease_token IS NOT NULL
), cut AS (
    SELECT GREATEST((SELECT count(*) FROM head), (SELECT count(*) FROM held), (SELECT count(*) FROM later)) >= :most
           OR (SELECT count(*) FROM walk) >= {MOST_LANES} AS is_cut
), fresh AS (
    SELECT count(*) AS number FROM lanes CROSS JOIN LATERAL (
        SELECT 1 FROM {{s}}.due d WHERE d.lane = lanes.lane AND d.wake_at > (SELECT at FROM began)
          AND d.wake_at <= (SELECT now FROM t) LIMIT 10 * :most) f
)"""

# The reason: the first that holds. A call counts once it is slow; before that, it is simply being sent.
_WHY = f"""CASE d.status
        WHEN 'held' THEN CASE WHEN z.drain_until IS NOT NULL AND z.stopped_at IS NOT NULL THEN 'drain_stopped'
                              WHEN z.drain_until IS NOT NULL THEN 'draining' WHEN z.ended_at IS NOT NULL THEN 'resumed'
                              WHEN z.by_mode THEN 'tenant_off' ELSE 'paused' END
        WHEN 'sending' THEN CASE WHEN d.wake_at <= (SELECT now FROM t) THEN 'claim_ended' ELSE 'calling' END
        WHEN 'leased' THEN CASE WHEN d.wake_at <= (SELECT now FROM t) THEN 'lease_ended' ELSE 'leased' END
        WHEN 'published' THEN CASE WHEN d.route = 'retry' THEN 'times_out' WHEN d.wake_at <= (SELECT now FROM t) THEN 'message_late'
                                   ELSE 'published' END
        ELSE CASE WHEN d.quiet_until = d.wake_at AND d.wake_at > (SELECT now FROM t) THEN 'quiet_hours'
                  WHEN {WAITS} THEN 'cap'
                  WHEN d.let_go_by IS NOT NULL THEN CASE WHEN g.drain_until IS NOT NULL THEN 'draining' ELSE 'resumed' END
                  WHEN d.wake_at <= (SELECT now FROM t) AND (x.seen_at > (SELECT now FROM t) - make_interval(secs => :away)) IS NOT TRUE
                      THEN 'no_dispatcher'
                  WHEN c.hold_until > (SELECT now FROM t) THEN 'channel_held'
                  WHEN p.breaker_opened_at IS NOT NULL THEN 'breaker'
                  WHEN p.hold_until > (SELECT now FROM t) THEN 'asked_to_wait'
                  WHEN n.status = 'retrying' AND a.delivery_key IS NULL AND {GIVEN_BACK} THEN 'given_back'
                  WHEN n.status = 'retrying' THEN CASE WHEN a.error_class = ANY(:ours) THEN 'retry_ours' ELSE 'retry' END
                  WHEN p.timed_out_at IS NOT NULL THEN 'times_out'
                  WHEN d.wake_at <= (SELECT now FROM t) THEN 'not_leased'
                  ELSE 'put_off' END END"""

# What the reason is of: the pause, drain or cap; and in words that, the hold of the place, or the last attempt.
_HOLD = f"COALESCE(d.hold_id, CASE WHEN {WAITS} THEN d.rate_id WHEN d.status = 'pending' THEN d.let_go_by END)"

_OF = f"""CASE WHEN d.hold_id IS NOT NULL THEN concat('by ', z.actor, ': ', z.reason)
             WHEN {WAITS} THEN concat('of ', COALESCE('tenant ' || w.tenant_id, 'channel ' || w.channel, 'destination ' || w.destination_id))
             WHEN d.status = 'pending' AND d.let_go_by IS NOT NULL THEN concat('by ', g.ended_by, ': ', g.ended_reason)
             WHEN d.status = 'pending' AND c.hold_until > (SELECT now FROM t) THEN c.hold_reason
             WHEN d.status = 'pending' AND (p.breaker_opened_at IS NOT NULL OR p.hold_until > (SELECT now FROM t)) THEN p.hold_reason
             WHEN d.status = 'pending' AND n.status = 'retrying' THEN a.error_class END"""

_LATE = f"""looked AS MATERIALIZED (
    SELECT d.id, r.tenant_id, r.user_id, r.channel, r.destination_id, GREATEST(r.due_at, r.created_at) AS since, {_WHY} AS why, {_HOLD} AS hold, {_OF} AS of
    FROM found JOIN {{s}}.due d ON d.id = found.id JOIN {{s}}.reminders r ON r.id = d.id
    LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
    LEFT JOIN {{s}}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {{s}}.tenant_policies q ON q.tenant_id = r.tenant_id AND q.channel = ''
    LEFT JOIN {{s}}.dispatchers x
        ON x.name = COALESCE(q.dispatcher, (SELECT w.dispatcher FROM {{s}}.new_tenants w WHERE w.sole), :dispatcher)
    LEFT JOIN {{s}}.pauses z ON z.id = d.hold_id
    LEFT JOIN {{s}}.pauses g ON g.id = d.let_go_by
    LEFT JOIN {{s}}.rates w ON w.id = d.rate_id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = d.delivery_key
    LEFT JOIN {{s}}.delivery_attempts a
        ON n.status = 'retrying' AND a.delivery_key = n.delivery_key AND a.claim_number = n.claim_number AND a.claimed_at = n.claimed_at
    WHERE r.due_at <= (SELECT now FROM t) AND (:tenant IS NULL OR r.tenant_id = :tenant)
      AND NOT (d.status = 'sending' AND d.wake_at > (SELECT now FROM t)
               AND n.claimed_at > (SELECT now FROM t) - make_interval(secs => :slow))
), late AS MATERIALIZED (
    SELECT id, tenant_id, user_id, channel, destination_id, since, hold, CASE WHEN why <> 'no_dispatcher' THEN of END AS of,
           CASE WHEN why IN ('put_off', 'given_back') AND bool_or(why = 'calling') OVER (PARTITION BY destination_id) THEN 'behind_slow' ELSE why END AS why
    FROM looked
), went AS (
    SELECT count(DISTINCT recent.reminder_id) AS number
    FROM recent JOIN {{s}}.reminders r ON r.id = recent.reminder_id
    WHERE recent.recorded_at > (SELECT at FROM began) AND r.finished_at > (SELECT at FROM began)
      AND GREATEST(r.due_at, r.created_at) <= (SELECT at FROM began) AND (:tenant IS NULL OR r.tenant_id = :tenant)
)"""

LATE_OF_ALL = f"WITH RECURSIVE {_SINCE}, {_ALL}, {_LATE}"
LATE_OF_TENANT = f"WITH RECURSIVE {_SINCE}, {_OF_TENANT}, {_LATE}"
"""CTEs `t` (`now`), `began` (`at`, when the trend begins), `late` (a row for each reminder), `cut` (`is_cut`), `fresh` and `went` (`number`)."""

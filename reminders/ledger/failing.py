"""What failures make of a destination: since when every call has failed (after a stated time it is disabled, never by a
count), that its last call timed out, and its breaker.

The first failure writes the time and a success clears it, only where it is set: a destination that works is read by both,
and written by neither.
"""

from __future__ import annotations

DISABLE_AFTER = 5 * 86400.0
"""Seconds, unless the installation says otherwise."""

FAILS = {
    "failed": "boolean", "disable_after": "float8", "timed_out": "boolean", "unwell": "boolean", "trips": "boolean",
    "open_for": "float8", "open_longest": "float8",
}  # fmt: skip
"""The parameters of `FAILING`, beside those of a report; without `disable_after` nothing is disabled.

`unwell` says that the failure is the destination's own, not a refusal of one message; `trips` that its breaker opens.
"""

_TOO_LONG = "(SELECT now FROM t) - make_interval(secs => :disable_after)"
_SINCE = """to_char(p.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')"""

# The breaker opens on a worker's word, and again when the reminder that asks on its behalf finds the destination unwell: each
# time for twice as long. A probe that was refused has found it well. Being open is a hold like any other, and shortens none.
_PROBE = "k.breaker_opened_at IS NOT NULL AND k.probe_id = r.id"
_OPENS = f"""(:unwell AND ((:trips AND k.breaker_opened_at IS NULL) OR {_PROBE}))"""
_CLOSES = f"(NOT :unwell AND {_PROBE})"
_OPEN_UNTIL = (
    "(SELECT now FROM t) + make_interval(secs => LEAST(:open_longest, :open_for * 2 ^ LEAST(p.breaker_times, 20)))"
)
# What another worker has committed since counts.
_OPENS_STILL = """((SELECT opens FROM judged)
         AND (p.breaker_opened_at IS NULL OR COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false)))"""
_CLOSES_STILL = "((SELECT closes FROM judged) AND COALESCE(p.probe_id = (SELECT reminder_id FROM judged), false))"
_WHY = "'breaker open, the last call: ' || COALESCE(NULLIF(:reason, ''), :error_class)"

# A CTE after `delivery`. Whoever finds the destination failing, for not long enough, does not write to its row.
FAILING = f"""judged AS MATERIALIZED (
    SELECT r.destination_id, r.tenant_id, r.channel, r.destination, r.id AS reminder_id,
           COALESCE({_OPENS}, false) AS opens, COALESCE({_CLOSES}, false) AS closes
    FROM delivery JOIN {{s}}.reminders r ON r.id = delivery.reminder_id
    LEFT JOIN {{s}}.destinations k ON k.id = r.destination_id
    WHERE :failed AND k.disabled_at IS NULL
      AND (COALESCE(k.failing_since <= {_TOO_LONG}, k.failing_since IS NULL)
           OR :timed_out <> (k.timed_out_at IS NOT NULL) OR {_OPENS} OR {_CLOSES})
), failing AS (
    INSERT INTO {{s}}.destinations AS p
        (id, tenant_id, channel, address, failing_since, timed_out_at, breaker_opened_at, breaker_times, hold_until, hold_reason)
    SELECT destination_id, tenant_id, channel, destination, (SELECT now FROM t), CASE WHEN :timed_out THEN (SELECT now FROM t) END,
           CASE WHEN opens THEN (SELECT now FROM t) END, CASE WHEN opens THEN 1 ELSE 0 END,
           CASE WHEN opens THEN (SELECT now FROM t) + make_interval(secs => :open_for) END, CASE WHEN opens THEN {_WHY} END
    FROM judged
    ON CONFLICT (id) DO UPDATE
    SET failing_since = COALESCE(p.failing_since, EXCLUDED.failing_since),
        timed_out_at = CASE WHEN :timed_out THEN COALESCE(p.timed_out_at, EXCLUDED.timed_out_at) END,
        breaker_opened_at = CASE WHEN {_CLOSES_STILL} THEN NULL ELSE COALESCE(p.breaker_opened_at, EXCLUDED.breaker_opened_at) END,
        breaker_times = CASE WHEN {_CLOSES_STILL} THEN 0 WHEN {_OPENS_STILL} THEN p.breaker_times + 1 ELSE p.breaker_times END,
        probe_id = CASE WHEN NOT {_CLOSES_STILL} AND NOT {_OPENS_STILL} THEN p.probe_id END,
        hold_until = CASE WHEN {_OPENS_STILL} THEN GREATEST(p.hold_until, {_OPEN_UNTIL}) ELSE p.hold_until END,
        hold_reason = CASE WHEN {_OPENS_STILL} AND COALESCE(p.hold_until < {_OPEN_UNTIL}, true) THEN {_WHY} ELSE p.hold_reason END,
        disabled_at = CASE WHEN p.failing_since <= {_TOO_LONG} THEN COALESCE(p.disabled_at, (SELECT now FROM t))
                           ELSE p.disabled_at END,
        disabled_reason = CASE WHEN p.failing_since <= {_TOO_LONG} AND p.disabled_at IS NULL
                               THEN 'every call has failed since ' || {_SINCE} || '; the last one: '
                                    || COALESCE(NULLIF(:reason, ''), :error_class)
                               ELSE p.disabled_reason END
    RETURNING p.id, p.tenant_id, p.channel, p.disabled_at, p.disabled_reason, p.breaker_opened_at, p.hold_reason
)"""


def recovered(destination: str) -> str:
    """A CTE that clears the times after a success, where they are set, and closes the breaker if it was the probe's;
    `destination` selects the destination's id or nothing, and the parameter `:id` is the reminder's.
    """
    return f"""recovered AS (
    UPDATE {{s}}.destinations
    SET failing_since = NULL, timed_out_at = NULL,
        breaker_opened_at = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_opened_at END,
        breaker_times = CASE WHEN probe_id IS DISTINCT FROM :id THEN breaker_times ELSE 0 END,
        probe_id = CASE WHEN probe_id IS DISTINCT FROM :id THEN probe_id END
    WHERE id = ({destination}) AND (failing_since IS NOT NULL OR timed_out_at IS NOT NULL OR probe_id = :id)
)"""

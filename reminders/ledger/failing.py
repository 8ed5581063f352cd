"""Since when every call to a destination has failed; after a stated time it is disabled. Never by a count.

The first failure writes the time and a success clears it, only where it is set: a destination that works is read by both,
and written by neither.
"""

from __future__ import annotations

DISABLE_AFTER = 5 * 86400.0
"""Seconds, unless the installation says otherwise."""

FAILS = {"failed": "boolean", "disable_after": "float8"}
"""The parameters of `FAILING`, beside those of a report; without `disable_after` nothing is disabled."""

_TOO_LONG = "(SELECT now FROM t) - make_interval(secs => :disable_after)"
_SINCE = """to_char(p.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')"""

# A CTE after `delivery`. Whoever finds the destination failing, for not long enough, does not write to its row.
FAILING = f"""failing AS (
    INSERT INTO {{s}}.destinations AS p (id, tenant_id, channel, address, failing_since)
    SELECT r.destination_id, r.tenant_id, r.channel, r.destination, (SELECT now FROM t)
    FROM delivery JOIN {{s}}.reminders r ON r.id = delivery.reminder_id
    LEFT JOIN {{s}}.destinations k ON k.id = r.destination_id
    WHERE :failed AND k.disabled_at IS NULL AND COALESCE(k.failing_since <= {_TOO_LONG}, k.failing_since IS NULL)
    ON CONFLICT (id) DO UPDATE
    SET failing_since = COALESCE(p.failing_since, EXCLUDED.failing_since),
        disabled_at = CASE WHEN p.failing_since <= {_TOO_LONG} THEN COALESCE(p.disabled_at, (SELECT now FROM t))
                           ELSE p.disabled_at END,
        disabled_reason = CASE WHEN p.failing_since <= {_TOO_LONG} AND p.disabled_at IS NULL
                               THEN 'every call has failed since ' || {_SINCE} || '; the last one: '
                                    || COALESCE(NULLIF(:reason, ''), :error_class)
                               ELSE p.disabled_reason END
    RETURNING p.id, p.tenant_id, p.channel, p.disabled_at, p.disabled_reason
)"""


def recovered(destination: str) -> str:
    """A CTE that clears the time, if it is set, after a success; `destination` selects the destination's id or nothing."""
    return f"""recovered AS (
    UPDATE {{s}}.destinations SET failing_since = NULL WHERE id = ({destination}) AND failing_since IS NOT NULL
)"""

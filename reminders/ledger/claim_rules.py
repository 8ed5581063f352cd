"""When a claim may be taken, and what it may do: the rules that the claim, its refusal and the end without a call share.

Each is an expression over a row `d` of `due`, its reminder `r`, the rows that `PLACE` joins to them, and CTE `t` with the
time.
"""

from __future__ import annotations

from reminders.ledger.consent_rules import MAY_BE_QUIET, SUPPRESSED

# What is known of the place and its tenant: a row each at most, and none as long as nobody has said anything.
PLACE = """LEFT JOIN {s}.destinations p ON p.id = r.destination_id
    LEFT JOIN {s}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
    LEFT JOIN {s}.tenant_policies qc ON qc.tenant_id = r.tenant_id AND qc.channel = r.channel
    LEFT JOIN {s}.tenant_policies qt ON qt.tenant_id = r.tenant_id AND qt.channel = ''
    LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key"""

DELAYS = "COALESCE(qc.retry_delays, qt.retry_delays)"
"""The retry delays that the tenant has set for the channel, or else for all its channels."""

# A tenant's word can only be stricter than what the destination promises. A worker that lacks the channel does not know
# whether it can look keys up; what an earlier claim has stamped says that another worker can.
ON_UNKNOWN = """CASE
        WHEN qc.on_unknown = 'review' OR qt.on_unknown = 'review' THEN 'review'
        WHEN COALESCE(p.deduplicates, r.deduplicates) AND qc.on_unknown IS NULL AND qt.on_unknown IS NULL THEN 'repeat'
        WHEN r.channel = ANY(:look_ups) OR n.on_unknown = 'look_up' THEN 'look_up'
        ELSE 'review' END"""

RULES = {"look_ups": "text[]", "window": "float8"}
"""The parameters of the rules."""

# Standing reasons not to call, although the message is the right one. What is unknown is repeated only while the
# destination remembers the key; asking the far side for the key needs no such memory. In shadow nobody is called, and it must
# not be forgotten. Consent goes last: it costs most.
ENDS = f"""COALESCE(r.expires_at <= (SELECT now FROM t) OR d.give_up_at <= (SELECT now FROM t)
            OR n.confirmed_late_at IS NOT NULL OR p.disabled_at IS NOT NULL
            OR n.uncertain_since IS NOT NULL
               AND CASE WHEN qt.mode = 'shadow' THEN true ELSE CASE {ON_UNKNOWN}
                   WHEN 'repeat' THEN n.uncertain_since <= (SELECT now FROM t) - make_interval(secs => :window)
                   WHEN 'look_up' THEN false
                   ELSE true END END OR {SUPPRESSED}, false)"""

SECRET_MARK = "NULLIF(concat(p.secret_mark, '/', qc.secret_mark), '/')"  # noqa: S105 (an expression, not a secret)
"""What stands for the secrets of the destination's and the tenant's own; null for nearly everyone."""

# Whether the destination's breaker is open or half open, and the reminder is not the one that the ledger has chosen to ask.
# What is in shadow asks nobody, and waits for no answer: while all of a tenant is, there is none.
HALF_OPEN = "p.breaker_opened_at IS NOT NULL AND p.probe_id IS DISTINCT FROM r.id AND qt.mode IS DISTINCT FROM 'shadow'"

HELD = f"(COALESCE(GREATEST(p.hold_until, c.hold_until) > (SELECT now FROM t), false) OR {HALF_OPEN})"
"""Whether the destination, or the tenant's whole channel, must be left alone for now."""

# A look-up reaches nobody: it does not wait for the morning.
QUIET = f"({MAY_BE_QUIET} AND NOT (n.uncertain_since IS NOT NULL AND {ON_UNKNOWN} = 'look_up'))"
"""Whether its recipient may be in quiet hours now, and it would reach them."""

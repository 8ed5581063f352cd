"""Consent as the claim sees it: what suppresses a reminder, and whether its recipient may be in quiet hours.

Expressions over a reminder `r` and CTE `t` with the time. Each look-up is a scalar subquery over an index, never a join: so
it is a probe whatever the planner thinks of the tables, and one into an empty index for whoever uses none of this.
"""

from __future__ import annotations

# The user by the name that stands for them since they were erased; null, and nothing is worked out, where nobody ever was.
_ERASED_USER = (
    """CASE WHEN (SELECT e.sole FROM {s}.erasure_key e WHERE e.sole) THEN {s}.erased_user(r.tenant_id, r.user_id) END"""
)

# The standing suppression or refusing preference by its id, null if there is none. Of several preferences the narrowest
# counts: kind and channel, then the kind, then the channel, then all; and one that was said after an erasure before one from
# before it.
SUPPRESSED_BY = f"""COALESCE(
        (SELECT x.id FROM {{s}}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.user_id = r.user_id
           AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT x.id FROM {{s}}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.destination_id = r.destination_id
           AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT x.id FROM {{s}}.suppressions x
         WHERE x.lifted_at IS NULL AND x.tenant_id = r.tenant_id AND x.user_id = {_ERASED_USER}
           AND x.channel IN ('', r.channel) AND x.kind IN ('', r.kind) LIMIT 1),
        (SELECT CASE WHEN NOT f.allowed THEN f.id END FROM {{s}}.preferences f
         WHERE f.ended_at IS NULL AND f.tenant_id = r.tenant_id AND f.user_id IN (r.user_id, {_ERASED_USER})
           AND f.kind IN ('', r.kind) AND f.channel IN ('', r.channel)
         ORDER BY f.kind = '', f.channel = '', f.user_id <> r.user_id LIMIT 1))"""

SUPPRESSED = f"({SUPPRESSED_BY} IS NOT NULL)"

# Whether the recipient has quiet hours, the kind is not critical, and it has not been worked out yet that now is none of them.
MAY_BE_QUIET = """((SELECT true FROM {s}.recipients u
          WHERE u.tenant_id = r.tenant_id AND u.user_id = r.user_id AND u.quiet_from IS NOT NULL
            AND COALESCE(u.clear_until <= (SELECT now FROM t), true)
            AND (SELECT k.critical FROM {s}.kind_policies k WHERE k.tenant_id = r.tenant_id AND k.kind = r.kind) IS NOT TRUE
         ) IS NOT NULL)"""


def reason_of(suppressed_by: str) -> str:
    """SQL: the words of what `suppressed_by` names."""
    return f"""COALESCE(
        (SELECT x.reason FROM {{s}}.suppressions x WHERE x.id = {suppressed_by}),
        (SELECT 'the user does not want ' || CASE WHEN f.kind = '' THEN 'anything' ELSE f.kind END
                || CASE WHEN f.channel = '' THEN '' ELSE ' by ' || f.channel END
         FROM {{s}}.preferences f WHERE f.id = {suppressed_by}))"""

"""Whether a cap covers something, and how many calls are open under it: what setting, listing and giving turns share."""

from __future__ import annotations

from reminders.domain.lanes import SEPARATOR
from reminders.domain.turns import LATEST, SHORTEST_LAG

WAITS = "d.status = 'pending' AND d.turn_at = d.wake_at"
"""Whether row `d` of `due` waits for its turn under the cap `d.rate_id`. The words are those of the index."""


def uncalled(tenant: str) -> str:
    """Whether nobody is called for what a tenant has, given by an expression: it is off, or in shadow."""
    return f"""COALESCE((SELECT q.mode FROM {{s}}.tenant_policies q WHERE q.tenant_id = {tenant} AND q.channel = '')
                IN ('off', 'shadow'), false)"""


_TENANT_OF_F = f"split_part(f.lane, chr({ord(SEPARATOR)}), 1)"

# A tenant's lanes are its own and those of its destinations. Messages that nobody is called for take nobody's place.
IN_FLIGHT = f"""(SELECT count(*) FROM {{s}}.due f
     WHERE f.status IN ('published', 'sending') AND f.wake_at > (SELECT now FROM t)
       AND CASE WHEN z.destination_id IS NOT NULL THEN f.destination_id = z.destination_id
                WHEN z.tenant_id IS NOT NULL THEN {_TENANT_OF_F} = z.tenant_id
                ELSE EXISTS (SELECT 1 FROM {{s}}.reminders r WHERE r.id = f.id AND r.channel = z.channel) END
       AND (f.status = 'sending' OR NOT {uncalled(_TENANT_OF_F)}))::integer"""
"""How many messages are on their way, and claims open, of what cap `z` covers."""

CAPACITY = f"GREATEST(z.burst, z.per_second * {SHORTEST_LAG})"
"""`reminders.domain.turns.capacity` of cap `z`."""

LAG = f"GREATEST(({CAPACITY} - 1) / z.per_second, {LATEST})"
"""Seconds by which the turns of cap `z` may lag behind the present, while somebody waits for them."""

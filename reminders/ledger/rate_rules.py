"""Whether a cap covers something, and how many calls are open under it: what setting, listing and giving turns share."""

from __future__ import annotations

from reminders.domain.lanes import SEPARATOR
from reminders.domain.turns import LATEST, SHORTEST_LAG

SLOWEST, FASTEST = 1e-7, 100_000.0
"""Tokens a second; the slowest is one in four months. A turn that is further away than Postgres reckons would stop every scan."""
_FARTHEST = "interval '100 years'"


def bounded(per_second: str) -> str:
    """A stored rate as statements reckon with it: one that no release of today would store stops nobody else's turns."""
    return f"CASE WHEN {per_second} IS NOT NULL THEN LEAST(GREATEST({per_second}, {SLOWEST}), {FASTEST}) END"


def near(instant: str) -> str:
    """A stored instant as statements reckon with it, within 100 years of `t`: none, and any long ago, is the year 1970."""
    return f"LEAST(GREATEST({instant}, timestamptz 'epoch'), (SELECT now FROM t) + {_FARTHEST})"


def instant_of(seconds: str) -> str:
    """The instant that is so many seconds after 1970, within 100 years of `t`; NULL of NULL."""
    most = f"extract(epoch FROM (SELECT now FROM t) + {_FARTHEST})::float8"
    return f"to_timestamp(CASE WHEN {seconds} IS NOT NULL THEN LEAST(GREATEST({seconds}, 0), {most}) END)"


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

PER_SECOND = bounded("z.per_second")
"""The rate of cap `z`."""

CAPACITY = f"GREATEST(z.burst, {PER_SECOND} * {SHORTEST_LAG})"
"""`reminders.domain.turns.capacity` of cap `z`."""

LAG = f"GREATEST(({CAPACITY} - 1) / {PER_SECOND}, {LATEST})"
"""Seconds by which the turns of cap `z` may lag behind the present, while somebody waits for them."""

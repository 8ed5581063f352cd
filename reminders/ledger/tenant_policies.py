"""What tenants want otherwise than the installation: stricter after an unknown outcome, other delays between attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

ALL_CHANNELS = ""
"""Stands for every channel of a tenant; what is set for one channel goes before it."""

Stricter = Literal["look_up", "review"]

SET = Statement(
    "tenant_set",
    """
INSERT INTO {s}.tenant_policies AS p (tenant_id, channel, on_unknown, retry_delays)
VALUES (:tenant, :channel, :on_unknown, :retry_delays)
ON CONFLICT (tenant_id, channel) DO UPDATE
SET on_unknown = CASE WHEN :keep_on_unknown THEN p.on_unknown ELSE EXCLUDED.on_unknown END,
    retry_delays = CASE WHEN :keep_retry_delays THEN p.retry_delays ELSE EXCLUDED.retry_delays END
RETURNING 1
""",
    {
        "tenant": "text", "channel": "text", "on_unknown": "text", "retry_delays": "float8[]", "keep_on_unknown": "boolean",
        "keep_retry_delays": "boolean",
    },
)  # fmt: skip

FORGET_IF_DEFAULT = Statement(
    "tenant_forget",
    """
DELETE FROM {s}.tenant_policies
WHERE tenant_id = :tenant AND channel = :channel AND on_unknown IS NULL AND retry_delays IS NULL
  AND secret_mark IS NULL AND mode IS NULL
RETURNING 1
""",
    {"tenant": "text", "channel": "text"},
)

KNOWN = Statement(
    "tenants_known",
    """
WITH held AS (SELECT * FROM {s}.channel_holds WHERE hold_until > clock_timestamp()),
policies AS (SELECT * FROM {s}.tenant_policies WHERE on_unknown IS NOT NULL OR retry_delays IS NOT NULL)
SELECT tenant_id, channel, p.on_unknown, p.retry_delays, h.hold_until, h.hold_reason
FROM policies p FULL JOIN held h USING (tenant_id, channel)
WHERE :tenant IS NULL OR tenant_id = :tenant
ORDER BY tenant_id, channel LIMIT :limit
""",
    {"tenant": "text", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class TenantChannel:
    """What is set, and what holds, for a tenant over a channel; `channel` is None for what holds over all of them."""

    tenant_id: str
    channel: str | None
    on_unknown: Stricter | None
    """What follows an unknown outcome at least; None leaves it to what the destination promises."""
    retry_delays: Sequence[float] | None
    """Seconds between attempts; None for the installation's."""
    held_until: datetime | None
    """Until when nothing is sent, because the tenant's credentials were refused; None if it is not held now. UTC."""
    hold_reason: str | None


def set_policy(
    database: Database,
    tenant: str,
    channel: str = ALL_CHANNELS,
    *,
    on_unknown: Stricter | Literal["default"] | None = None,
    retry_delays: Sequence[float] | Literal["default"] | None = None,
) -> None:
    """Set what the next claims go by; None leaves a part as it is, `default` takes the tenant's word back.

    The texts and delays must be checked.
    """
    given = {"tenant": tenant, "channel": channel}
    database.fetch(
        SET,
        **given,
        on_unknown=None if on_unknown == "default" else on_unknown,
        retry_delays=None if retry_delays is None or retry_delays == "default" else list(retry_delays),
        keep_on_unknown=on_unknown is None,
        keep_retry_delays=retry_delays is None,
    )
    database.fetch(FORGET_IF_DEFAULT, **given)


def known(database: Database, *, tenant: str | None, limit: int) -> list[TenantChannel]:
    """Everything that is set or held, by tenant and channel."""
    return [
        TenantChannel(name, channel or None, on_unknown, delays, held_until and held_until.astimezone(UTC), hold_reason)
        for name, channel, on_unknown, delays, held_until, hold_reason in database.fetch(
            KNOWN, tenant=tenant, limit=limit
        )
    ]

"""An operator's word on whether a destination may be called: disable, enable, release from a hold."""

from __future__ import annotations

import socket
from datetime import datetime
from uuid import UUID

from reminders.domain.errors import Refused
from reminders.domain.identity import destination_id
from reminders.domain.retry_policy import LONGEST_HOLD
from reminders.ledger.database import Database
from reminders.ledger.destinations import Destination, find
from reminders.ledger.holding import HOLD_SPREAD
from reminders.ledger.notices import SEEN_BY_ENABLING
from reminders.ledger.statement import Statement

# Nobody need have sent anything there yet. What disabled it first stays on record; an operator's word outlasts the reminders.
DISABLE = Statement(
    "destination_disable",
    """
INSERT INTO {s}.destinations AS p (id, tenant_id, channel, address, disabled_at, disabled_reason, disabled_by_operator)
VALUES (:id, :tenant, :channel, :address, clock_timestamp(), :reason, true)
ON CONFLICT (id) DO UPDATE
SET disabled_by_operator = true, disabled_at = COALESCE(p.disabled_at, EXCLUDED.disabled_at), disabled_reason = COALESCE(p.disabled_reason, EXCLUDED.disabled_reason)
RETURNING 1
""",
    {"id": "uuid", "tenant": "text", "channel": "text", "address": "text", "reason": "text"},
)

ENABLE_IF_DISABLED = Statement(
    "destination_enable",
    f"""
WITH enabled AS (
    UPDATE {{s}}.destinations
    SET disabled_at = NULL, disabled_reason = NULL, disabled_by_operator = false, failing_since = NULL, breaker_opened_at = NULL,
        breaker_times = 0, probe_id = NULL, enabled_at = clock_timestamp(), enabled_reason = :reason
    WHERE id = :id AND disabled_at IS NOT NULL
    RETURNING id
), {SEEN_BY_ENABLING}
SELECT 1 FROM enabled
""",
    {"id": "uuid", "reason": "text", "host": "text"},
)


def _release(name: str, hold: str, lift: str, belongs: str, types: dict[str, str]) -> Statement:
    """Lift a hold and wake what waits for it, which is found among all that wakes until its end, by the wake index.

    Woken is only what would be due by now if there were no hold: neither what is scheduled for later nor a retry in its
    delay. Nothing is waited for, and the hold's own row is locked last. All waiting may begin anew.
    """
    return Statement(
        name,
        f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
hold AS MATERIALIZED ({hold}),
horizon AS MATERIALIZED (
    SELECT COALESCE((SELECT hold_until FROM hold WHERE hold_until > (SELECT now FROM t)),
                    (SELECT now FROM t) + interval '{LONGEST_HOLD} seconds') + interval '{HOLD_SPREAD} seconds' AS until
), parked AS MATERIALIZED (
    SELECT d.id, d.delivery_key, d.attempts, r.expires_at
    FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = d.delivery_key
    WHERE d.wake_at > (SELECT now FROM t) AND d.wake_at <= (SELECT until FROM horizon) AND d.status = 'pending'
      AND {belongs} AND r.due_at <= (SELECT now FROM t)
      AND (n.retry_at IS NULL OR n.retry_at <= (SELECT now FROM t)
           OR r.last_outcome = 'blocked' AND n.budget_started_at IS NOT NULL)
    FOR NO KEY UPDATE OF d SKIP LOCKED
), woken AS (
    UPDATE {{s}}.due d SET wake_at = (SELECT now FROM t), give_up_at = parked.expires_at
    FROM parked WHERE d.id = parked.id
), anew AS (
    UPDATE {{s}}.notification_deliveries n SET budget_started_at = NULL
    FROM parked WHERE n.delivery_key = parked.delivery_key AND parked.attempts = 0
), lifted AS ({lift})
SELECT (SELECT count(*) FROM parked), COALESCE((SELECT hold_until > (SELECT now FROM t) FROM hold), false)
""",
        {**types, "now": "timestamptz"},
    )


RELEASE_DESTINATION = _release(
    "destination_release",
    "SELECT hold_until FROM {s}.destinations WHERE id = :id",
    """UPDATE {s}.destinations
       SET hold_until = NULL, hold_reason = NULL, breaker_opened_at = NULL, breaker_times = 0, probe_id = NULL
       WHERE id = :id AND (hold_until IS NOT NULL OR breaker_opened_at IS NOT NULL) AND (SELECT count(*) FROM parked) >= 0""",
    "d.destination_id = :id",
    {"id": "uuid"},
)

RELEASE_CHANNEL = _release(
    "channel_release",
    "SELECT hold_until FROM {s}.channel_holds WHERE tenant_id = :tenant AND channel = :channel",
    """DELETE FROM {s}.channel_holds
       WHERE tenant_id = :tenant AND channel = :channel AND (SELECT count(*) FROM parked) >= 0""",
    "r.tenant_id = :tenant AND r.channel = :channel",
    {"tenant": "text", "channel": "text"},
)


Place = tuple[str, str, str]
"""Tenant, channel and address."""


def disable(database: Database, place: Place, reason: str) -> Destination:
    """Let nothing be sent to the destination from now on, save by calls that are under way.

    Its reminders end as dead letters as they come due. The texts must be checked.
    """
    tenant, channel, address = place
    given = {"tenant": tenant, "channel": channel, "address": address, "reason": reason}
    database.fetch(DISABLE, id=str(destination_id(*place)), **given)
    return find(database, *place)


def enable(database: Database, place: Place, reason: str) -> Destination:
    """Let reminders be sent there again. Dead letters stay until they are redriven. Raises `NotFound`, `Refused`."""
    given = {"id": str(destination_id(*place)), "reason": reason, "host": socket.gethostname()}
    if not database.fetch(ENABLE_IF_DISABLED, **given):
        found = find(database, *place)
        raise Refused(f"destination {found.id} is not disabled")
    return find(database, *place)


def release_destination(database: Database, place: UUID, now: datetime | None = None) -> tuple[int, bool]:
    """End the destination's hold early: how many reminders are due at once for it, and whether it was held."""
    woken, held = database.fetch(RELEASE_DESTINATION, id=str(place), now=now)[0]
    return woken, held


def release_channel(database: Database, tenant: str, channel: str, now: datetime | None = None) -> tuple[int, bool]:
    """The same for a tenant's whole channel."""
    woken, held = database.fetch(RELEASE_CHANNEL, tenant=tenant, channel=channel, now=now)[0]
    return woken, held

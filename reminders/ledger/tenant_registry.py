"""Tenants as a dispatcher meets them: a new one starts as the settings say, and belongs to whom new tenants belong to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from reminders.domain.identity import uuid7
from reminders.domain.tenants import MAIN, Mode
from reminders.ledger.claim_rules import PLACE
from reminders.ledger.database import Database
from reminders.ledger.ownership import OWNER, THIS_EPOCH
from reminders.ledger.statement import Statement

# Whoever meets the first tenant of a ledger takes the new ones from then on, until they are handed over. A tenant that starts
# as off is held by a pause as one that an operator has turned off.
REGISTER = Statement(
    "register_tenants",
    """
WITH first AS (
    INSERT INTO {s}.new_tenants (dispatcher) VALUES (:dispatcher) ON CONFLICT DO NOTHING
), met AS (
    INSERT INTO {s}.tenant_policies AS p (tenant_id, channel, mode, dispatcher)
    SELECT tenant_id, '', :new_tenants, COALESCE((SELECT w.dispatcher FROM {s}.new_tenants w WHERE w.sole), :dispatcher)
    FROM unnest(:tenants) AS met (tenant_id) ORDER BY tenant_id
    ON CONFLICT (tenant_id, channel) DO UPDATE SET mode = EXCLUDED.mode, dispatcher = EXCLUDED.dispatcher WHERE p.mode IS NULL
    RETURNING tenant_id, mode, dispatcher
), noted AS (
    INSERT INTO {s}.tenant_changes (id, tenant_id, mode, dispatcher, reason, actor, host)
    SELECT given.id, met.tenant_id, met.mode, met.dispatcher, :reason, :actor, :host
    FROM met JOIN unnest(:tenants, :ids) AS given (tenant_id, id) USING (tenant_id) WHERE met.mode <> 'live'
)
INSERT INTO {s}.pauses (id, tenant_id, reason, actor, host, by_mode)
SELECT given.id, met.tenant_id, :reason, :actor, :host, true
FROM met JOIN unnest(:tenants, :ids) AS given (tenant_id, id) USING (tenant_id) WHERE met.mode = 'off'
RETURNING 1
""",
    {**OWNER, "tenants": "text[]", "ids": "uuid[]", "reason": "text", "actor": "text", "host": "text"},
)

# A message from before a handover: its row is due at once, for whoever owns the tenant now.
PASS_ON_IF_HANDED_OVER = Statement(
    "pass_on_handed_over",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
mine AS MATERIALIZED (
    SELECT d.id FROM {{s}}.due d
    JOIN {{s}}.reminders r ON r.id = d.id
    {PLACE}
    WHERE d.id = :id AND d.delivery_key = :key AND d.status IN ('leased', 'published') AND NOT {THIS_EPOCH}
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE {{s}}.due d SET status = 'pending', wake_at = LEAST((SELECT now FROM t), d.give_up_at) FROM mine WHERE d.id = mine.id
RETURNING 'handed_over'
""",
    {"key": "text", "now": "timestamptz", "id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Who scans and claims: its name, and how a tenant starts that it meets first."""

    dispatcher: str = MAIN
    new_tenants: Mode = "live"

    def given(self) -> dict[str, str]:
        """The values of `OWNER`."""
        return asdict(self)


ALONE = Dispatcher()
"""An installation that has set nothing."""


def register(database: Database, tenants: Iterable[str], dispatcher: Dispatcher) -> None:
    """Let tenants that the ledger does not know yet start as the settings say; those it knows stay as they are."""
    met = sorted(set(tenants))
    said = {"reason": "REMINDERS_NEW_TENANTS", "actor": "reminders", "host": socket.gethostname()}
    database.fetch(REGISTER, **dispatcher.given(), tenants=met, ids=[str(uuid7()) for _ in met], **said)

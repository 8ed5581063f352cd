"""How long a tenant has things kept, where that differs from the installation's settings."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.request import checked_text
from reminders.ledger.database import Database
from reminders.ledger.retention_rules import About
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

ABOUT: tuple[About, ...] = get_args(About)
SHORTEST = 86400.0
LONGEST = 100 * 366 * 86400.0
"""Seconds that something may be kept."""


def bounded(keep: str) -> str:
    """SQL: what is stored as `keep`, within those bounds: a value of any other release stops nobody else's purge."""
    return f"CASE WHEN {keep} IS NOT NULL THEN LEAST(GREATEST({keep}, {SHORTEST}), {LONGEST}) END"


SET = Statement(
    "retention_set",
    """
INSERT INTO {s}.retention_policies AS p (tenant_id, about, keep, reason, actor, host)
VALUES (:tenant, :about, :keep, :reason, :actor, :host)
ON CONFLICT (tenant_id, about) DO UPDATE
SET keep = EXCLUDED.keep, reason = EXCLUDED.reason, actor = EXCLUDED.actor, host = EXCLUDED.host, said_at = clock_timestamp()
RETURNING 1
""",
    {"tenant": "text", "about": "text", "keep": "float8", "reason": "text", "actor": "text", "host": "text"},
)

REMOVE = Statement(
    "retention_remove",
    "DELETE FROM {s}.retention_policies WHERE tenant_id = :tenant AND about = :about RETURNING 1",
    {"tenant": "text", "about": "text"},
)

LIST = Statement(
    "retention_list",
    """
SELECT tenant_id, about, keep, reason, actor, said_at FROM {s}.retention_policies
WHERE :tenant IS NULL OR tenant_id = :tenant ORDER BY tenant_id, about
""",
    {"tenant": "text"},
)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """One tenant's word: for how many seconds reminders, or evidence, are kept once they are over. `said_at` is UTC."""

    tenant_id: str
    about: str
    keep: float
    reason: str
    actor: str
    said_at: datetime


def set_policy(database: Database, tenant: str, about: str, keep: float, *, actor: str, reason: str) -> None:
    """Say it, or say it otherwise. It counts from the next step of a purge on. Raises `InvalidInput`."""
    if not SHORTEST <= keep <= LONGEST:
        raise InvalidInput("keep", f"must be from a day to a hundred years; this is {keep:g} s (write 90d for days)")
    database.fetch(
        SET,
        tenant=checked_text("tenant_id", tenant),
        about=_checked(about),
        keep=keep,
        actor=checked_words("actor", actor),
        reason=checked_words("reason", reason),
        host=socket.gethostname(),
    )


def remove_policy(database: Database, tenant: str, about: str) -> None:
    """Have the installation's setting count again. Raises `NotFound`, `InvalidInput`."""
    if not database.fetch(REMOVE, tenant=checked_text("tenant_id", tenant), about=_checked(about)):
        raise NotFound(f"tenant {tenant} has no retention of its own for {about}")


def policies(database: Database, tenant: str | None = None) -> list[RetentionPolicy]:
    """What tenants have said, by tenant."""
    found = database.fetch(LIST, tenant=tenant)
    return [
        RetentionPolicy(whose, about, keep, reason, actor, said_at.astimezone(UTC))
        for whose, about, keep, reason, actor, said_at in found
    ]


def _checked(about: str) -> str:
    if about not in ABOUT:
        raise InvalidInput("of", f"must be one of {', '.join(ABOUT)}")
    return about

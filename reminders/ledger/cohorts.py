"""Cohorts: named groups of tenants, which are moved together."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from reminders.domain.errors import InvalidInput
from reminders.domain.tenants import read_cohort
from reminders.ledger.database import Database
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

ADD = Statement(
    "cohort_add",
    """
INSERT INTO {s}.cohort_members (cohort, tenant_id, actor, host)
SELECT :cohort, tenant_id, :actor, :host FROM unnest(:tenants) AS wanted (tenant_id) ORDER BY tenant_id
ON CONFLICT DO NOTHING
RETURNING tenant_id
""",
    {"cohort": "text", "tenants": "text[]", "actor": "text", "host": "text"},
)

REMOVE = Statement(
    "cohort_remove",
    "DELETE FROM {s}.cohort_members WHERE cohort = :cohort AND tenant_id = ANY(:tenants) RETURNING tenant_id",
    {"cohort": "text", "tenants": "text[]"},
)

LIST = Statement(
    "cohorts",
    """
SELECT m.cohort, m.tenant_id, p.mode, p.dispatcher
FROM {s}.cohort_members m LEFT JOIN {s}.tenant_policies p ON p.tenant_id = m.tenant_id AND p.channel = ''
WHERE :cohort IS NULL OR m.cohort = :cohort
ORDER BY m.cohort, m.tenant_id LIMIT :limit
""",
    {"cohort": "text", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class Member:
    """A tenant in a cohort. `mode` and `dispatcher` are None while nobody has met the tenant yet."""

    cohort: str
    tenant_id: str
    mode: str | None
    dispatcher: str | None


def checked_cohort(name: str) -> str:
    """The name of a cohort. Raises `InvalidInput`."""
    if not isinstance(name, str):  # whatever a message holds
        raise InvalidInput("cohort", "must be text")
    try:
        return read_cohort(name)
    except ValueError as error:
        raise InvalidInput("cohort", str(error)) from None


def add(database: Database, cohort: str, tenants: Sequence[str], *, actor: str) -> list[str]:
    """Put tenants into a cohort; those that were not in it before. Their modes stay as they are. Raises `InvalidInput`."""
    given = {"cohort": checked_cohort(cohort), "actor": checked_words("actor", actor), "host": socket.gethostname()}
    return sorted(name for (name,) in database.fetch(ADD, **given, tenants=sorted(set(tenants))))


def remove(database: Database, cohort: str, tenants: Sequence[str]) -> list[str]:
    """Take tenants out of a cohort; those that were in it. Raises `InvalidInput`."""
    return sorted(
        name for (name,) in database.fetch(REMOVE, cohort=checked_cohort(cohort), tenants=sorted(set(tenants)))
    )


def members(database: Database, cohort: str | None, *, limit: int) -> list[Member]:
    """The tenants of a cohort, or of all, by name. Raises `InvalidInput`."""
    wanted = None if cohort is None else checked_cohort(cohort)
    return [Member(*row) for row in database.fetch(LIST, cohort=wanted, limit=limit)]

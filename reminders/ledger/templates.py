"""Keeping templates: adding versions, and which of them is active. Nothing here changes a version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.domain.identity import uuid7
from reminders.domain.template import Template
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database, Row
from reminders.ledger.statement import Statement

_PLACE = {"tenant": "text", "kind": "text", "channel": "text", "locale": "text"}
_HERE = "tenant_id = :tenant AND kind = :kind AND channel = :channel AND locale = :locale"
_BY = {"actor": "text", "host": "text"}
_COLUMNS = """v.id::text, v.tenant_id, v.kind, v.channel, v.locale, v.version, v.parts, v.added_at, v.actor, v.host,
       a.activated_at, a.actor, a.host"""

# One adding at a time, so that numbers have no gaps and none is given twice. Claims read another table.
_ALONE = "LOCK TABLE {s}.templates IN SHARE ROW EXCLUSIVE MODE"

NEWEST = Statement(
    "template_newest",
    f"SELECT id::text, version, parts FROM {{s}}.templates WHERE {_HERE} ORDER BY version DESC LIMIT 1",
    _PLACE,
)

ADD = Statement(
    "template_add",
    """
INSERT INTO {s}.templates (id, tenant_id, kind, channel, locale, version, parts, actor, host)
VALUES (:id, :tenant, :kind, :channel, :locale, :version, :parts, :actor, :host)
RETURNING 1
""",
    {**_PLACE, **_BY, "id": "uuid", "version": "integer", "parts": "jsonb"},
)

ACTIVATE = Statement(
    "template_activate",
    """
INSERT INTO {s}.active_templates AS a (tenant_id, kind, channel, locale, template_id, actor, host)
SELECT tenant_id, kind, channel, locale, id, :actor, :host FROM {s}.templates WHERE id = :id
ON CONFLICT (tenant_id, kind, channel, locale) DO UPDATE
SET template_id = EXCLUDED.template_id, activated_at = clock_timestamp(), actor = EXCLUDED.actor, host = EXCLUDED.host
WHERE a.template_id <> EXCLUDED.template_id
RETURNING 1
""",
    {**_BY, "id": "uuid"},
)

WITHDRAW = Statement(
    "template_withdraw", "DELETE FROM {s}.active_templates WHERE template_id = :id RETURNING 1", {"id": "uuid"}
)

LIST = Statement(
    "template_list",
    f"""
SELECT {_COLUMNS}
FROM {{s}}.templates v LEFT JOIN {{s}}.active_templates a ON a.template_id = v.id
WHERE (:id IS NULL OR v.id = :id) AND (:tenant IS NULL OR v.tenant_id = :tenant) AND (:kind IS NULL OR v.kind = :kind)
  AND (:channel IS NULL OR v.channel = :channel) AND (:locale IS NULL OR v.locale = :locale)
  AND (:every OR a.template_id IS NOT NULL)
ORDER BY v.tenant_id, v.kind, v.channel, v.locale, v.version DESC LIMIT :limit
""",
    {**_PLACE, "id": "uuid", "every": "boolean", "limit": "integer"},
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A version as the ledger keeps it. Instants are UTC; actors and hosts are who they claimed to be."""

    template: Template
    added_at: datetime
    actor: str
    host: str
    activated_at: datetime | None
    """Since when it is the one that first attempts pin; None, as the two below, while it is not."""
    activated_by: str | None
    activated_host: str | None


@dataclass(frozen=True, slots=True)
class Added:
    """What adding came to: `created` is false where the newest version had the same words."""

    kept: Kept
    created: bool


def add_template(
    database: Database,
    *,
    tenant: str,
    kind: str,
    channel: str,
    locale: str,
    parts: Mapping[str, str],
    actor: str,
    host: str,
    activate: bool = True,
) -> Added:
    """Add a version and make it the active one; nothing at all if the newest version has the same parts.

    An empty `tenant` stands for all tenants, an empty `locale` for the default. Everything must be checked. What is pinned
    already stays as it is.
    """
    place = {"tenant": tenant, "kind": kind, "channel": channel, "locale": locale}
    by = {"actor": actor, "host": host}
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(_ALONE.replace("{s}", database.schema))
        newest = fetch(connection, database.schema, NEWEST, **place)
        created = not newest or newest[0][2] != dict(parts)
        if created:
            version, number = str(uuid7()), newest[0][1] + 1 if newest else 1
            fetch(
                connection,
                database.schema,
                ADD,
                **place,
                **by,
                id=version,
                version=number,
                parts=json.dumps(dict(parts)),
            )
            if activate:
                fetch(connection, database.schema, ACTIVATE, **by, id=version)
        else:
            version = newest[0][0]
    return Added(template(database, UUID(version)), created)


def activate_template(database: Database, version: UUID, *, actor: str, host: str) -> tuple[Kept, bool]:
    """Make a version, newer or older, the one that first attempts pin from now on; and whether it was not already.

    Raises `NotFound`.
    """
    template(database, version)
    changed = bool(database.fetch(ACTIVATE, id=str(version), actor=actor, host=host))
    return template(database, version), changed


def withdraw_template(database: Database, version: UUID) -> tuple[Kept, bool]:
    """Leave its place without an active version; and whether this one was active. Raises `NotFound`."""
    template(database, version)
    changed = bool(database.fetch(WITHDRAW, id=str(version)))
    return template(database, version), changed


def template(database: Database, version: UUID) -> Kept:
    """One version. Raises `NotFound`."""
    rows = database.fetch(LIST, id=str(version), every=True, limit=1)
    if not rows:
        raise NotFound(f"there is no template version {version}; see `reminders template list --all`")
    return _kept(rows[0])


def templates(
    database: Database,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    channel: str | None = None,
    locale: str | None = None,
    every: bool = False,
    limit: int,
) -> list[Kept]:
    """Active versions, or with `every` all of them, by place, newest first. What is None matches everything."""
    given = {"tenant": tenant, "kind": kind, "channel": channel, "locale": locale}
    return [_kept(row) for row in database.fetch(LIST, **given, every=every, limit=limit)]


def _kept(row: Row) -> Kept:
    version, tenant, kind, channel, locale, number, parts, added_at, actor, host, activated_at, by, where = row
    return Kept(
        Template(UUID(version), tenant, kind, channel, locale, number, parts),
        added_at.astimezone(UTC),
        actor,
        host,
        activated_at and activated_at.astimezone(UTC),
        by,
        where,
    )

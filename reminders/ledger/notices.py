"""What a person should be told once, written by the statement that does what the notice tells of. No personal data."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

logger = logging.getLogger(__name__)

NoticeKind = Literal[
    "destination_gone",
    "destination_failing",
    "channel_held",
    "breaker_opened",
    "dead_letter",
    "beat_silent",
    "reconciliation_refused",
]
NOTICE_KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)

NOTICES = {"notice_id": "uuid", "passing": "boolean"}
"""The parameters of `NOTICE`. What is `passing` is told to nobody."""

OPEN = "(kind, tenant_id, channel, destination_id) WHERE seen_at IS NULL"
"""Of one thing there is one open notice: what follows ON CONFLICT."""

# A CTE after `said`, `said_of_channel` and `failing`. What had been said before is no news: a destination that was
# disabled, a hold that still stands. The sub-select sees the holds as they were before this statement; two statements at
# once may both find none, which is why only breakers, which open under their destination's row, are counted.
NOTICE = f"""notice AS (
    INSERT INTO {{s}}.notices AS o (id, kind, tenant_id, channel, destination_id, reason, noticed_at)
    SELECT :notice_id, news.*, (SELECT now FROM t)
    FROM (
        SELECT 'destination_gone', tenant_id, channel, id, disabled_reason FROM said WHERE disabled_at = (SELECT now FROM t)
        UNION ALL
        SELECT 'destination_failing', tenant_id, channel, id, disabled_reason
        FROM failing WHERE disabled_at = (SELECT now FROM t)
        UNION ALL
        SELECT 'breaker_opened', tenant_id, channel, id, hold_reason
        FROM failing WHERE breaker_opened_at = (SELECT now FROM t) AND disabled_at IS NULL
        UNION ALL
        SELECT 'channel_held', c.tenant_id, c.channel, NULL, c.hold_reason FROM said_of_channel c
        WHERE :passing IS NOT TRUE
          AND NOT EXISTS (SELECT 1 FROM {{s}}.channel_holds h
                          WHERE h.tenant_id = c.tenant_id AND h.channel = c.channel AND h.hold_until > (SELECT now FROM t))
    ) news LIMIT 1
    ON CONFLICT {OPEN}
    DO UPDATE SET times = o.times + 1, last_at = EXCLUDED.noticed_at, reason = EXCLUDED.reason WHERE o.kind = 'breaker_opened'
    RETURNING o.id, o.kind, o.channel, o.destination_id, o.times
)"""

AS_NEWS = (
    "json_build_object('notice', id, 'kind', kind, 'channel', channel, 'destination', destination_id, 'times', times)"
)
NEWS = f"(SELECT {AS_NEWS} FROM notice)"
"""What `notice` has written, or null: a column of the statement's answer."""

LIST = Statement(
    "list_notices",
    """
SELECT id::text, kind, tenant_id, channel, destination_id::text, reason, noticed_at, times,
       COALESCE(last_at, noticed_at), seen_at, seen_by
FROM {s}.notices
WHERE (:seen OR seen_at IS NULL) AND (:tenant IS NULL OR tenant_id = :tenant)
ORDER BY COALESCE(last_at, noticed_at) DESC, id DESC LIMIT :limit
""",
    {"seen": "boolean", "tenant": "text", "limit": "integer"},
)

COUNT = Statement(
    "count_notices",
    """
SELECT kind, count(*) FILTER (WHERE seen_at IS NULL), COALESCE(sum(times) FILTER (WHERE seen_at IS NULL), 0)::bigint, sum(times)::bigint
FROM {s}.notices GROUP BY kind
""",
    {},
)

SEE = Statement(
    "see_notices",
    """
WITH named AS MATERIALIZED (
    SELECT id FROM {s}.notices
    WHERE CASE WHEN :ids IS NULL THEN seen_at IS NULL AND (:tenant IS NULL OR tenant_id = :tenant) ELSE id = ANY(:ids) END
    ORDER BY id FOR NO KEY UPDATE
), seen AS (
    UPDATE {s}.notices n SET seen_at = clock_timestamp(), seen_by = :actor, seen_host = :host
    FROM named WHERE n.id = named.id AND n.seen_at IS NULL
    RETURNING n.id
)
SELECT named.id::text, seen.id IS NOT NULL FROM named LEFT JOIN seen USING (id)
""",
    {"ids": "uuid[]", "tenant": "text", "actor": "text", "host": "text"},
)

# A CTE: who enables a destination has seen why it was disabled.
SEEN_BY_ENABLING = """seen AS (
    UPDATE {s}.notices SET seen_at = clock_timestamp(), seen_by = 'who enabled it', seen_host = :host
    WHERE destination_id = :id AND seen_at IS NULL AND EXISTS (SELECT 1 FROM enabled)
)"""


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice; open until `seen_at`. UTC.

    `destination_id` is None for one about a tenant's whole channel, `tenant_id` and `channel` for one about the
    installation. It came `times` times, last at `last_at`, before somebody saw it.
    """

    id: UUID
    kind: NoticeKind
    tenant_id: str | None
    channel: str | None
    destination_id: UUID | None
    reason: str
    noticed_at: datetime
    times: int
    last_at: datetime
    seen_at: datetime | None
    seen_by: str | None


def tell(news: dict[str, Any] | None) -> None:
    """Log a notice that was written just now, in one line."""
    if news is not None:
        logger.warning(
            "notice.new kind=%s notice=%s channel=%s destination=%s times=%d: `reminders notice list` says why",
            news["kind"], news["notice"], news["channel"] or "-", news["destination"] or "-", news["times"],
        )  # fmt: skip


def notices(database: Database, *, tenant: str | None = None, seen: bool = False, limit: int = 100) -> list[Notice]:
    """Those that are open, and with `seen` the others too, newest first."""
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, LIST, tenant=tenant, seen=seen, limit=limit)
    return [_notice(row) for row in rows]


@dataclass(frozen=True, slots=True)
class NoticeCount:
    """Of one kind: how many are open, how often what they tell of came, and how often it ever came."""

    open: int
    open_times: int
    ever: int


def count_notices(database: Database) -> dict[NoticeKind, NoticeCount]:
    """How many notices there are, of every kind."""
    with database.transaction() as connection:
        found = {kind: NoticeCount(*counts) for kind, *counts in fetch(connection, database.schema, COUNT)}
    return {kind: found.get(kind, NoticeCount(0, 0, 0)) for kind in NOTICE_KINDS}


def see(database: Database, *, ids: Sequence[UUID] | None, tenant: str | None, actor: str) -> int:
    """Close notices: those with these ids or, without ids, all that are open, of a tenant or of everybody.

    Returns how many were open. Raises `NotFound` for an id that is no notice's; then none is closed.
    """
    named = None if ids is None else [str(each) for each in ids]
    given = {"ids": named, "tenant": tenant, "actor": actor, "host": socket.gethostname()}
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, SEE, **given)
        if missing := set(named or ()) - {row[0] for row in rows}:
            raise NotFound(f"there is no notice {min(missing)}")
    return sum(closed for _, closed in rows)


def _notice(row: tuple[Any, ...]) -> Notice:
    columns: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
    notice_id, kind, tenant, channel, destination, *rest = columns
    return Notice(UUID(notice_id), kind, tenant, channel, None if destination is None else UUID(destination), *rest)

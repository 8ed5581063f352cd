"""Notices that no statement of a claim can write: of dead letters, of a beat that is silent, of files that are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reminders.ledger.database import Database
from reminders.ledger.notices import AS_NEWS, OPEN, tell
from reminders.ledger.statement import Statement

# A letter is told of by whoever looks next, not by the statement that opens it: a thousand that end at once would wait for
# one notice's row. Once is enough, so each letter bears its notice. Notices are written in one order, after the letters.
LOOK = Statement(
    "look_for_news",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
letters AS MATERIALIZED (
    SELECT l.id, l.kind || ': ' || l.error_class AS what, r.tenant_id, r.channel
    FROM {{s}}.dead_letters l JOIN {{s}}.reminders r ON r.id = l.reminder_id
    WHERE l.state = 'open' AND l.notice_id IS NULL
    ORDER BY l.opened_at LIMIT :limit
    FOR NO KEY UPDATE OF l SKIP LOCKED
), told AS (
    INSERT INTO {{s}}.notices AS o (id, kind, tenant_id, channel, reason, noticed_at, times)
    SELECT {{s}}.uuid7(), 'dead_letter', tenant_id, channel, (array_agg(what ORDER BY id DESC))[1], (SELECT now FROM t), count(*)
    FROM letters GROUP BY tenant_id, channel ORDER BY tenant_id, channel
    ON CONFLICT {OPEN}
    DO UPDATE SET times = o.times + EXCLUDED.times, last_at = EXCLUDED.noticed_at, reason = EXCLUDED.reason
    RETURNING o.*
), marked AS (
    UPDATE {{s}}.dead_letters l SET notice_id = told.id
    FROM letters JOIN told USING (tenant_id, channel) WHERE l.id = letters.id
), silent AS (
    INSERT INTO {{s}}.notices AS o (id, kind, reason, noticed_at)
    SELECT {{s}}.uuid7(), 'beat_silent',
           'no tick of beat since ' || to_char(k.last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), (SELECT now FROM t)
    FROM {{s}}.ticks k
    WHERE k.name = 'scan_due' AND k.last_at < (SELECT now FROM t) - make_interval(secs => :silence)
      AND NOT EXISTS (SELECT 1 FROM {{s}}.notices n
                      WHERE n.kind = 'beat_silent' AND (n.noticed_at > k.last_at OR n.last_at > k.last_at))
    ON CONFLICT {OPEN}
    DO UPDATE SET times = o.times + 1, last_at = EXCLUDED.noticed_at, reason = EXCLUDED.reason
    RETURNING o.*
)
SELECT {AS_NEWS} FROM told
UNION ALL
SELECT {AS_NEWS} FROM silent
""",
    {"now": "timestamptz", "limit": "integer", "silence": "float8"},
)

REFUSED = f"""notice AS (
    INSERT INTO {{s}}.notices AS o (id, kind, reason)
    SELECT {{s}}.uuid7(), 'reconciliation_refused', 'settlement file ' || id FROM refused WHERE :told
    ON CONFLICT {OPEN}
    DO UPDATE SET times = o.times + 1, last_at = EXCLUDED.noticed_at, reason = EXCLUDED.reason
    RETURNING o.*
)"""
"""A CTE after `refused`: a settlement file was refused. Its parameter `:told` says whether anybody should be told."""

MOST_LETTERS = 500
"""Dead letters that one look tells of."""


def look_for_news(database: Database, *, silence: float | None, now: datetime | None = None) -> list[dict[str, Any]]:
    """Write and log notices of dead letters that nobody was told of, and of a beat that has been silent for so long.

    `silence` is in seconds; None says nothing of beat. A beat that has never ticked is not silent.
    """
    news = [each for (each,) in database.fetch_in_loops(LOOK, now=now, limit=MOST_LETTERS, silence=silence)]
    for each in news:
        tell(each)
    return news

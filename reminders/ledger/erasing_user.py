"""Erasing what is on record of one user beside their reminders: series, calendars, and what they allow and refuse."""

from __future__ import annotations

from reminders.domain.identity import NOWHERE
from reminders.ledger.database import Database
from reminders.ledger.erasure_records import OF, WHO, WORDS, Erasure, note, step
from reminders.ledger.statement import Statement

# The row stays: the same series scheduled again is found, cancelled.
SERIES = Statement(
    "erasure_series",
    f"""
WITH gone AS MATERIALIZED (
    SELECT id, destination_id FROM {{s}}.series WHERE {OF} AND status = 'cancelled' ORDER BY id FOR NO KEY UPDATE
), noted AS (
    UPDATE {{s}}.erasures
    SET destination_ids = ARRAY(SELECT DISTINCT i.id FROM (SELECT unnest(destination_ids) UNION SELECT destination_id FROM gone) i (id)
                                WHERE i.id <> :nowhere)
    WHERE id = :erasure
), skips AS (
    DELETE FROM {{s}}.series_skips k USING gone g WHERE k.series_id = g.id RETURNING 1
), blank AS (
    UPDATE {{s}}.series x
    SET user_id = :token, destination = '', destination_id = :nowhere, reference = NULL, slot = '', data = '{{}}',
        request_hash = {{s}}.erased_hash(), start_wall = '1970-01-01T00:00:00', rule = NULL, extra = '{{}}', left_out = '{{}}',
        skipped = '{{}}', zone = 'UTC', planned_zone = 'UTC', follows_user = false, erased_at = clock_timestamp()
    FROM gone g WHERE x.id = g.id RETURNING 1
)
SELECT (SELECT count(*) FROM blank), (SELECT count(*) FROM skips)
""",
    {**WHO, "token": "text", "erasure": "uuid", "nowhere": "uuid"},
)

CALENDARS = Statement(
    "erasure_calendars",
    f"""
WITH mine AS MATERIALIZED (SELECT id FROM {{s}}.calendars WHERE {OF} ORDER BY id FOR UPDATE), entries AS (
    DELETE FROM {{s}}.calendar_entries e USING mine WHERE e.calendar_id = mine.id RETURNING 1
), revisions AS (
    DELETE FROM {{s}}.calendar_revisions e USING mine WHERE e.calendar_id = mine.id RETURNING 1
)
SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM entries), (SELECT count(*) FROM revisions)
""",
    WHO,
)

DROP_CALENDARS = Statement("erasure_drop_calendars", f"DELETE FROM {{s}}.calendars WHERE {OF} RETURNING 1", WHO)

# Where an earlier erasure has left a word about the same, the later one counts.
OLDER_WORDS = Statement(
    "erasure_older_words",
    """
WITH said AS (
    UPDATE {s}.preferences o SET ended_at = clock_timestamp()
    WHERE o.tenant_id = :tenant AND o.user_id = :token AND o.ended_at IS NULL AND EXISTS (
        SELECT 1 FROM {s}.preferences n WHERE n.tenant_id = :tenant AND n.user_id = :user AND n.kind = o.kind
          AND n.channel = o.channel AND n.ended_at IS NULL)
    RETURNING 1
), lifted AS (
    UPDATE {s}.suppressions o SET lifted_at = clock_timestamp(), lifted_by = 'erase', lifted_reason = 'it was said again'
    WHERE o.tenant_id = :tenant AND o.user_id = :token AND o.lifted_at IS NULL AND EXISTS (
        SELECT 1 FROM {s}.suppressions n WHERE n.tenant_id = :tenant AND n.user_id = :user AND n.kind = o.kind
          AND n.channel = o.channel AND n.lifted_at IS NULL)
    RETURNING 1
)
SELECT (SELECT count(*) FROM said), (SELECT count(*) FROM lifted)
""",
    {**WHO, "token": "text"},
)

CONSENT = Statement(
    "erasure_consent",
    f"""
WITH preferences AS (
    UPDATE {{s}}.preferences SET user_id = :token WHERE {OF} RETURNING 1
), suppressions AS (
    UPDATE {{s}}.suppressions x SET user_id = :token, reason = 'erased', lifted_reason = {WORDS.format("lifted_reason")}
    WHERE {OF} RETURNING 1
), recipients AS (
    DELETE FROM {{s}}.recipients WHERE {OF} RETURNING 1
)
SELECT (SELECT count(*) FROM preferences), (SELECT count(*) FROM suppressions), (SELECT count(*) FROM recipients)
""",
    {**WHO, "token": "text"},
)


def erase_series(database: Database, of: Erasure) -> None:
    """Leave of the user's series, which are cancelled, only that they were there."""
    with step(database) as run:
        (counts,) = run(SERIES, **of.who, token=of.token, erasure=str(of.id), nowhere=str(NOWHERE))
        note(run, of, dict(zip(("series", "series_skips"), counts, strict=True)))


def erase_calendars(database: Database, of: Erasure) -> None:
    """Forget what imports of the user's calendars have made. One that still runs ends at its next batch."""
    with step(database) as run:
        (counts,) = run(CALENDARS, **of.who)
        run(DROP_CALENDARS, **of.who)
        note(run, of, dict(zip(("calendars", "calendar_entries", "calendar_revisions"), counts, strict=True)))


def erase_consent(database: Database, of: Erasure) -> None:
    """Forget zone, locale and hours; keep in force what the user allows and refuses, under the name that stands for them."""
    with step(database) as run:
        run(OLDER_WORDS, **of.who, token=of.token)
        (counts,) = run(CONSENT, **of.who, token=of.token)
        note(run, of, dict(zip(("preferences", "suppressions", "recipients"), counts, strict=True)))

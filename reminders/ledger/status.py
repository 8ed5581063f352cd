"""The ledger's side of `reminders status`, and the partitions that maintenance keeps ahead."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, get_args

from psycopg2.errors import CheckViolation

from reminders.domain.states import ReminderStatus
from reminders.domain.tenants import MODES
from reminders.ledger.database import Database
from reminders.ledger.dispatchers import away
from reminders.ledger.draining import drains
from reminders.ledger.pausing import pauses
from reminders.ledger.rates import rates
from reminders.ledger.statement import Statement
from reminders.ledger.tenant_standing import counted
from reminders.ledger.waiting_for_places import HOLDS, LOOKED_AT, WAITING

logger = logging.getLogger(__name__)

# `wake_at` of a row that is leased or published is when it is looked at again, not since when it waits. A look-up for
# each of them: they are few, and a join could read the whole ledger.
STATUS = Statement(
    "status",
    """
WITH RECURSIVE t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
holding AS (
    (SELECT hold_id FROM {s}.due WHERE hold_id IS NOT NULL ORDER BY hold_id LIMIT 1)
    UNION ALL
    SELECT following.hold_id
    FROM holding CROSS JOIN LATERAL (
        SELECT d.hold_id FROM {s}.due d WHERE d.hold_id > holding.hold_id ORDER BY d.hold_id LIMIT 1
    ) following
),
live AS (SELECT status, count(*) AS n FROM {s}.due GROUP BY status),
ended AS (
    SELECT status, count(*) AS n FROM {s}.reminders
    WHERE finished_at > (SELECT now FROM t) - interval '24 hours' GROUP BY status
),
waiting AS (
    SELECT min(wake_at) AS due_since FROM {s}.due WHERE status = 'pending'
    UNION ALL
    SELECT GREATEST((SELECT r.due_at FROM {s}.reminders r WHERE r.id = d.id),
                    (SELECT n.retry_at FROM {s}.notification_deliveries n WHERE n.delivery_key = d.delivery_key))
    FROM {s}.due d WHERE d.status IN ('leased', 'published')
    UNION ALL
    SELECT min(d.waits_since) FROM {s}.due d WHERE d.status = 'pending' AND d.turn_at = d.wake_at
    UNION ALL
    SELECT (SELECT min(COALESCE(d.due_since, d.held_at)) FROM {s}.due d WHERE d.hold_id = z.id)
    FROM holding JOIN {s}.pauses z ON z.id = holding.hold_id WHERE z.ended_at IS NOT NULL
    UNION ALL
    SELECT min(d.due_since) FROM {s}.due d WHERE d.let_go_by IS NOT NULL
)
SELECT (SELECT json_object_agg(status, n) FROM (SELECT * FROM live UNION ALL SELECT * FROM ended) c),
       (SELECT extract(epoch FROM (SELECT now FROM t) - min(due_since))::float8 FROM waiting
        WHERE due_since <= (SELECT now FROM t)),
       (SELECT count(*) FROM {s}.due WHERE status IN ('published', 'sending')),
       (SELECT last_at FROM {s}.ticks WHERE name = 'scan_due'),
       (SELECT extract(epoch FROM (SELECT now FROM t) - last_at)::float8 FROM {s}.ticks WHERE name = 'scan_due'),
       (SELECT COALESCE(sum(dropped), 0)::bigint FROM {s}.ticks WHERE name = 'scan_due'),
       (SELECT count(*) FROM {s}.dead_letters WHERE state = 'open'),
       (SELECT json_object_agg(kind, n) FROM (SELECT kind, count(*) AS n FROM {s}.notices WHERE seen_at IS NULL GROUP BY kind) k),
       (SELECT count(*) FROM {s}.due WHERE status = 'pending' AND quiet_until = wake_at AND wake_at > (SELECT now FROM t)),
       (SELECT count(*) FROM {s}.destinations WHERE breaker_opened_at IS NOT NULL),
       (SELECT count(*) FROM {s}.due d WHERE d.status = 'pending' AND d.turn_at = d.wake_at)
""",
    {"now": "timestamptz"},
)

# A partition is made before its month begins: once rows of that month lie in the DEFAULT partition, making it would
# have to scan that partition under a lock.
MONTHS_AHEAD = 3
MISSING_PARTITIONS = Statement(
    "missing_partitions",
    """
SELECT 'delivery_attempts_' || to_char(month, 'YYYY_MM'), month::date::text, (month + interval '1 month')::date::text
FROM generate_series(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC'),
                     date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(months => :ahead),
                     interval '1 month') AS month
WHERE to_regclass('{s}.delivery_attempts_' || to_char(month, 'YYYY_MM')) IS NULL
""",
    {"ahead": "integer"},
)

PERIODS = 2
"""Of beat's, without a tick, after which beat counts as stopped."""
COUNTED: tuple[str, ...] = get_args(ReminderStatus)


def ledger_status(database: Database, now: datetime | None = None, *, scan_every: float = 60.0) -> dict[str, Any]:
    """Counts (live states exact, terminal ones of the last 24 h) and ages in seconds.

    `oldest_due_age_seconds` counts from the due time, or the retry's, of what is due and not being sent yet, save what
    a pause holds that has not ended. `last_tick_at` and `dropped_ticks` are beat's alone; `beat_ticks` says whether the last one is at most `PERIODS` of
    `scan_every` (seconds, beat's period) ago. `quiet` counts those of the pending ones that wait for the end of their users' quiet hours. `pauses` are `Pause` objects: those that are active or still hold something; `drains` are those under way, `rates` the caps in
    force. What waits for a turn, or is worked off by a drain or a resume, counts as due since it was. `waiting_for_holds` counts
    those of the pending ones that wait for the end of a destination's or a whole channel's hold, up to 10,000. `breakers_open` counts the half open ones too,
    `notices` the unseen ones by kind.
    `tenants` counts those that the ledger has met by their modes, `dispatchers` by whose they are; `dispatchers_away` are those of them that
    nobody has been seen to run of late.
    """
    found = database.fetch(STATUS, now=now)[0]
    counts, oldest, in_flight, last_tick, tick_age, dropped, letters, notices, quiet, breakers, waiting = found
    counts = counts or {}
    notices = notices or {}
    modes, dispatchers = counted(database)
    places: dict[str, int] = dict(database.fetch(WAITING, holds=HOLDS, looked_at=LOOKED_AT))
    return {
        "counts": {status: counts.get(status, 0) for status in COUNTED},
        "oldest_due_age_seconds": round(oldest, 3) if oldest is not None else 0.0,
        "in_flight": in_flight,
        "last_tick_at": last_tick and last_tick.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "beat_ticks": tick_age is not None and tick_age <= PERIODS * scan_every,
        "dropped_ticks": dropped,
        "dead_letters_open": letters,
        "notices_open": sum(notices.values()),
        "notices": notices,
        "held": counts.get("held", 0),
        "quiet": quiet,
        "waiting_for_turns": waiting,
        "waiting_for_holds": {reason: places.get(reason, 0) for reason in ("destination", "channel")},
        "breakers_open": breakers,
        "pauses": pauses(database),
        "tenants": {mode: modes.get(mode, 0) for mode in MODES},
        "dispatchers": dispatchers,
        "dispatchers_away": away(database, dispatchers, scan_every=scan_every),
        "drains": drains(database),
        "rates": rates(database),
    }


def make_partitions(database: Database) -> list[str]:
    """Create the months of `delivery_attempts` that are missing, up to `MONTHS_AHEAD`; return the names of those made.

    A month of which attempts already lie in the DEFAULT partition stays there: moving them is a person's decision.
    """
    made = []
    for name, start, end in database.fetch(MISSING_PARTITIONS, ahead=MONTHS_AHEAD):
        try:
            with database.transaction() as connection, connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
                # Two at once would both find it missing, in spite of IF NOT EXISTS.
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('reminders-partitions'))")
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {database.schema}.{name} PARTITION OF {database.schema}.delivery_attempts "
                    f"FOR VALUES FROM ('{start} 00:00:00+00') TO ('{end} 00:00:00+00')"
                )
        except CheckViolation:
            logger.warning("partitions.month_in_default name=%s: its first attempts came before its partition", name)
        else:
            made.append(name)
    return made

"""What metrics are drawn from: one short look at the ledger, at a cost that does not grow with it.

Every count ends at `MOST`, by an index that holds what is counted and little else; what must not end there is an age, which
reads one row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from reminders.ledger.caller import fetch
from reminders.ledger.database import INDEXES_ONLY, Database
from reminders.ledger.rate_rules import WAITS
from reminders.ledger.statement import Statement
from reminders.ledger.waiting_for_places import HOLDS, LOOKED_AT, WAITING

MOST = 100_000
"""At which a count ends; reading as many index entries takes some 30 ms."""
LOOKED_UP = 200
"""Of what is leased or published, how many are looked up to see which has waited longest: those that seem to."""
STATEMENT_SECONDS = 2
"""After which Postgres breaks a statement off: an observer must not be a load."""
LOOK_SECONDS = 6.0
"""After which the whole look is broken off, for a server that answers nothing at all: Prometheus waits for ten."""

CLOCK = Statement("measure_clock", "SELECT extract(epoch FROM clock_timestamp())::float8", {})

# What is due, by the head of the wake index, and what is in flight. `ready_at` may be from before a retry or a move.
DUE = Statement(
    "measure_due",
    """
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
head AS MATERIALIZED (
    SELECT id, delivery_key, status, wake_at, ready_at FROM {s}.due WHERE wake_at <= (SELECT now FROM t) ORDER BY wake_at LIMIT :most
), flight AS MATERIALIZED (
    SELECT id, delivery_key, status, wake_at, ready_at FROM {s}.due
    WHERE status IN ('published', 'sending') ORDER BY wake_at LIMIT :most
), candidates AS MATERIALIZED (
    SELECT id, delivery_key, ready_at
    FROM (SELECT * FROM head WHERE status = 'leased' UNION ALL SELECT * FROM flight WHERE status = 'published') c
    ORDER BY ready_at LIMIT :looked_up
), since AS (
    SELECT min(wake_at) AS due_since FROM head WHERE status = 'pending'
    UNION ALL
    SELECT GREATEST(c.ready_at, (SELECT r.due_at FROM {s}.reminders r WHERE r.id = c.id),
                    (SELECT n.retry_at FROM {s}.notification_deliveries n WHERE n.delivery_key = c.delivery_key))
    FROM candidates c
)
SELECT (SELECT count(*) FILTER (WHERE status = 'pending') FROM head), (SELECT count(*) FILTER (WHERE status = 'leased') FROM head),
       (SELECT count(*) FILTER (WHERE status = 'published') FROM head),
       (SELECT count(*) FILTER (WHERE status = 'sending') FROM head),
       (SELECT count(*) FILTER (WHERE status = 'published') FROM flight),
       (SELECT count(*) FILTER (WHERE status = 'sending') FROM flight),
       (SELECT GREATEST(extract(epoch FROM (SELECT now FROM t) - min(due_since))::float8, 0) FROM since),
       (SELECT count(*) FROM (SELECT 1 FROM {s}.due WHERE status = 'pending' AND attempts > 0 AND wake_at > (SELECT now FROM t) LIMIT :most) p)
""",
    {"most": "integer", "looked_up": "integer"},
)

# A pause, a drain and a cap are each asked by itself, as the walk over the index finds them.
HELD = Statement(
    "measure_held",
    f"""
WITH RECURSIVE t AS MATERIALIZED (SELECT clock_timestamp() AS now), holds AS (
    (SELECT hold_id FROM {{s}}.due WHERE hold_id IS NOT NULL ORDER BY hold_id LIMIT 1)
    UNION ALL
    SELECT following.hold_id FROM holds CROSS JOIN LATERAL (
        SELECT d.hold_id FROM {{s}}.due d WHERE d.hold_id > holds.hold_id ORDER BY d.hold_id LIMIT 1) following
), held AS (
    SELECT CASE WHEN z.drain_until IS NOT NULL THEN 'drain' WHEN z.by_mode THEN 'tenant_off' ELSE 'pause' END AS reason,
           (SELECT count(*) FROM (SELECT 1 FROM {{s}}.due d WHERE d.hold_id = holds.hold_id LIMIT :most) n) AS number
    FROM holds JOIN {{s}}.pauses z ON z.id = holds.hold_id
)
SELECT reason, sum(number)::bigint FROM held GROUP BY reason
UNION ALL
SELECT 'quiet_hours', count(*) FROM (SELECT 1 FROM {{s}}.due WHERE status = 'pending' AND quiet_until = wake_at
                                      AND wake_at > (SELECT now FROM t) LIMIT :most) q
UNION ALL
SELECT 'cap', count(*) FROM (SELECT 1 FROM {{s}}.due d WHERE {WAITS} LIMIT :most) w
""",
    {"most": "integer"},
)

REVIEW = Statement(
    "measure_review",
    """
SELECT kind, count(*), extract(epoch FROM clock_timestamp() - min(opened_at))::float8
FROM (SELECT kind, opened_at FROM {s}.dead_letters WHERE state = 'open' ORDER BY opened_at LIMIT :most) l
GROUP BY kind
""",
    {"most": "integer"},
)

# What is unknown and live, or waits for a person's word. Nothing that lives is in doubt for longer than it may wait.
UNKNOWN = Statement(
    "measure_unknown",
    """
WITH live AS MATERIALIZED (
    SELECT uncertain_since FROM {s}.notification_deliveries
    WHERE uncertain_since > clock_timestamp() - interval '370 days' AND status IN ('sending', 'retrying') LIMIT :most
), review AS (
    SELECT opened_at FROM (SELECT kind, opened_at FROM {s}.dead_letters WHERE state = 'open' ORDER BY opened_at LIMIT :most) l
    WHERE kind = 'unknown' ORDER BY opened_at LIMIT 1
)
SELECT (SELECT count(*) FROM live),
       extract(epoch FROM clock_timestamp() - LEAST((SELECT min(uncertain_since) FROM live), (SELECT opened_at FROM review)))::float8
""",
    {"most": "integer"},
)

STATE = Statement(
    "measure_state",
    """
SELECT (SELECT count(*) FROM {s}.destinations WHERE breaker_opened_at IS NOT NULL AND hold_until > clock_timestamp()
        AND (timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL)),
       (SELECT count(*) FROM {s}.destinations WHERE breaker_opened_at IS NOT NULL AND (hold_until > clock_timestamp()) IS NOT TRUE
        AND (timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL)),
       (SELECT count(*) FROM (SELECT 1 FROM {s}.notices WHERE seen_at IS NULL LIMIT :most) n),
       (SELECT json_object_agg(name, json_build_array(taken, dropped)) FROM {s}.ticks),
       (SELECT extract(epoch FROM clock_timestamp() - last_at)::float8 FROM {s}.ticks WHERE name = 'scan_due'),
       (SELECT extract(epoch FROM clock_timestamp() - recorded_at)::float8 FROM {s}.counted_up_to WHERE name = 'attempts')
""",
    {"most": "integer"},
)

# Another role's session shows no times, unless ours may read all statistics.
TRANSACTIONS = Statement(
    "measure_transactions",
    """
SELECT GREATEST((SELECT extract(epoch FROM clock_timestamp() - min(prepared))::float8 FROM pg_prepared_xacts WHERE database = current_database()),
                max(extract(epoch FROM clock_timestamp() - xact_start)::float8) FILTER (WHERE backend_type = 'client backend'), 0),
       count(*) FILTER (WHERE query = '<insufficient privilege>')
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
""",
    {},
)

TOTALS = Statement("measure_totals", "SELECT name, channel, label, value FROM {s}.totals", {})


@dataclass(frozen=True, slots=True)
class Measures:
    """What one look has shown. Ages and spans are seconds, instants Unix time; counts end at `MOST`."""

    clock_skew: float
    """How far the database's clock is ahead of this host's, within half of what its answer took."""
    due: dict[str, int]
    leases_past_end: int
    claims_past_end: int
    in_flight: dict[str, int]
    oldest_due_age: float
    parked: int
    held: dict[str, int]
    review: dict[str, tuple[int, float]]
    """By kind of letter: how many are open, and the age of the oldest."""
    unknown: int
    unknown_age: float
    breakers: dict[str, int]
    notices: int
    ticks: dict[str, tuple[int, int]]
    """By who woke the scan: how often a scan took it, and how often none did in time."""
    tick_age: float | None
    """Since beat's last tick; None if there was none."""
    counted_lag: float | None
    """Up to how long ago attempts are counted; None if they never were."""
    transaction_age: float
    transactions_unseen: int
    totals: dict[tuple[str, str, str], float]


def measure(database: Database) -> Measures:
    """Look once: a few statements in one read-only transaction. Raises what `Database` raises, also for a slow answer."""
    with database.answering_within(LOOK_SECONDS), database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'; SET LOCAL jit = off; {INDEXES_ONLY}"
            )

        def ask(statement: Statement, **given: Any) -> list[tuple[Any, ...]]:
            wanted = {"most": MOST, **given} if "most" in statement.types else given
            return fetch(connection, database.schema, statement, **wanted)

        asked = time.time()
        ((told,),) = ask(CLOCK)
        skew = told - (asked + time.time()) / 2
        ((pending, leased, overdue, lapsed, published, sending, oldest, parked),) = ask(DUE, looked_up=LOOKED_UP)
        ((breakers, half_open, notices, ticks, tick_age, lag),) = ask(STATE)
        ((unknown, unknown_age),) = ask(UNKNOWN)
        ((transaction_age, unseen),) = ask(TRANSACTIONS)
        return Measures(
            clock_skew=skew,
            due={"pending": pending, "leased": leased, "published": overdue},
            leases_past_end=leased,
            claims_past_end=lapsed,
            in_flight={"published": published, "sending": sending},
            oldest_due_age=oldest or 0.0,
            parked=parked,
            held={**dict(ask(HELD)), **dict(ask(WAITING, holds=HOLDS, looked_at=LOOKED_AT))},
            review={kind: (number, age) for kind, number, age in ask(REVIEW)},
            unknown=unknown,
            unknown_age=unknown_age or 0.0,
            breakers={"open": breakers, "half_open": half_open},
            notices=notices,
            ticks={name: (taken, dropped) for name, (taken, dropped) in (ticks or {}).items()},
            tick_age=tick_age,
            counted_lag=lag,
            transaction_age=transaction_age or 0.0,
            transactions_unseen=unseen,
            totals={(name, channel, label): value for name, channel, label, value in ask(TOTALS)},
        )

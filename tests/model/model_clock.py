"""A clock that the machine sets: everything Postgres dates stands under it, so that days pass in no time.

It shadows `clock_timestamp()` for connections whose search path names it before `pg_catalog`, and takes its place in the
tables' defaults. Two readings never agree, as with a real one; and the same run reads the same times. Chance, which spreads
what wakes, is stilled with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from model.model_database import ModelDatabase
from reminders.ledger.database import driver_url

START = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
"""When every example begins."""

INSTALL = """
CREATE SCHEMA model_clock;
CREATE SEQUENCE model_clock.tick;
CREATE TABLE model_clock.hand (at timestamptz NOT NULL);
CREATE TABLE reminders.delivery_attempts_modelled PARTITION OF reminders.delivery_attempts
    FOR VALUES FROM ('2026-06-01+00') TO ('2029-01-01+00');
CREATE FUNCTION model_clock.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RETURN (SELECT at FROM model_clock.hand) + (SELECT last_value FROM model_clock.tick) * interval '1 microsecond';
    END IF;
    RETURN (SELECT at FROM model_clock.hand) + nextval('model_clock.tick') * interval '1 microsecond';
END $$;
CREATE FUNCTION model_clock.random() RETURNS double precision LANGUAGE sql VOLATILE AS 'SELECT 0.5::double precision';
DO $$
DECLARE place record;
BEGIN
    FOR place IN SELECT table_name, column_name FROM information_schema.columns
                 WHERE table_schema = 'reminders' AND column_default LIKE '%clock_timestamp()%' LOOP
        EXECUTE format('ALTER TABLE reminders.%I ALTER COLUMN %I SET DEFAULT model_clock.clock_timestamp()',
                       place.table_name, place.column_name);
    END LOOP;
END $$;
"""
OPTIONS = (
    "-c search_path=model_clock,pg_catalog -c synchronous_commit=off -c jit=off -c plan_cache_mode=force_generic_plan "
    "-c lock_timeout=300ms -c statement_timeout=120s"
)
"""For every connection of the model: one process runs at a time here, so who waits for a lock at all would wait for ever. And
one plan for each statement, whatever was run before: rows that wake in the same microsecond come in the order of the plan."""


def under_the_clock(url: str) -> str:
    """The same database, for connections that live by the model's clock."""
    return driver_url(url).update_query_dict({"options": OPTIONS}).render_as_string(hide_password=False)


class ModelClock:
    """The time of one example, as the machine, Postgres and the processes of the machine see it."""

    def __init__(self, base: ModelDatabase) -> None:
        self._base = base
        self.now = START

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._base.sql("UPDATE model_clock.hand SET at = %s", (self.now,))

    def seconds(self) -> float:
        """For what asks a monotonic clock."""
        return (self.now - START).total_seconds()

    monotonic = seconds

"""Caps on rates and open calls, what waits for its turn under them, breakers of destinations, and drains."""

from reminders.ledger.migration_steps import build_index, run

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

# A cap is of one thing: a tenant, a channel or a destination. `next_at` is when its next turn is, `rate_tails` where each
# tenant's queue for turns ends. A row of `due` waits for its turn exactly while it is pending and `turn_at` is its
# `wake_at`: whatever else moves it ends the wait, without a look at these columns.
UPGRADE = """
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS {s}.rates (
    id uuid PRIMARY KEY,
    tenant_id text CHECK (tenant_id <> ''),
    channel text CHECK (channel <> ''),
    destination_id uuid,
    per_second double precision CHECK (per_second > 0),
    burst integer CHECK (burst >= 1),
    concurrent integer CHECK (concurrent >= 1),
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    removed_at timestamptz,
    removed_by text,
    removed_host text,
    removed_reason text,
    next_at timestamptz,
    CHECK (num_nonnulls(tenant_id, channel, destination_id) = 1),
    CHECK (num_nonnulls(per_second, concurrent) >= 1),
    CHECK ((burst IS NOT NULL) = (per_second IS NOT NULL)),
    CHECK ((removed_at IS NULL) = (removed_by IS NULL)),
    CHECK ((removed_at IS NULL) = (removed_host IS NULL)),
    CHECK ((removed_at IS NULL) = (removed_reason IS NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX IF NOT EXISTS rates_tenant ON {s}.rates (tenant_id) WHERE removed_at IS NULL AND tenant_id IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS rates_channel ON {s}.rates (channel) WHERE removed_at IS NULL AND channel IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS rates_destination ON {s}.rates (destination_id) WHERE removed_at IS NULL AND destination_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS rates_active ON {s}.rates (set_at) WHERE removed_at IS NULL;

CREATE TABLE IF NOT EXISTS {s}.rate_tails (
    rate_id uuid NOT NULL REFERENCES {s}.rates (id),
    tenant_id text NOT NULL,
    next_at timestamptz NOT NULL,
    PRIMARY KEY (rate_id, tenant_id)
) WITH (fillfactor = 50);

ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS rate_id uuid;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS turn_at timestamptz;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS waits_since timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_waits_for_a_turn;
ALTER TABLE {s}.due ADD CONSTRAINT due_waits_for_a_turn CHECK ((turn_at IS NULL) = (waits_since IS NULL) AND (turn_at IS NULL) = (rate_id IS NULL)) NOT VALID;

ALTER TABLE {s}.destinations ADD COLUMN IF NOT EXISTS timed_out_at timestamptz;
ALTER TABLE {s}.destinations ADD COLUMN IF NOT EXISTS breaker_opened_at timestamptz;
ALTER TABLE {s}.destinations ADD COLUMN IF NOT EXISTS breaker_times integer NOT NULL DEFAULT 0;
ALTER TABLE {s}.destinations ADD COLUMN IF NOT EXISTS probe_id uuid;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.destinations DROP CONSTRAINT IF EXISTS destinations_breaker;
ALTER TABLE {s}.destinations ADD CONSTRAINT destinations_breaker CHECK ((breaker_opened_at IS NULL) = (breaker_times = 0) AND (probe_id IS NOT NULL) <= (breaker_opened_at IS NOT NULL)) NOT VALID;

-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notices DROP CONSTRAINT IF EXISTS notices_kind_check;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_kind_check CHECK (kind IN ('destination_gone', 'destination_failing', 'channel_held', 'breaker_opened')) NOT VALID;

ALTER TABLE {s}.pauses ADD COLUMN IF NOT EXISTS drain_until timestamptz;
ALTER TABLE {s}.pauses ADD COLUMN IF NOT EXISTS drained_at timestamptz;
ALTER TABLE {s}.pauses ADD COLUMN IF NOT EXISTS stopped_at timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.pauses DROP CONSTRAINT IF EXISTS pauses_drain;
ALTER TABLE {s}.pauses ADD CONSTRAINT pauses_drain CHECK (num_nonnulls(drained_at, stopped_at) <= 1 AND (num_nonnulls(drained_at, stopped_at) = 1) <= (drain_until IS NOT NULL) AND (drain_until IS NOT NULL) <= (ended_at IS NOT NULL)) NOT VALID;
"""

VALIDATE = """
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_waits_for_a_turn;
ALTER TABLE {s}.destinations VALIDATE CONSTRAINT destinations_breaker;
ALTER TABLE {s}.notices VALIDATE CONSTRAINT notices_kind_check;
ALTER TABLE {s}.pauses VALIDATE CONSTRAINT pauses_drain;
"""

# The older release knows neither caps nor drains: what waits for a turn is due at it, and what a drain holds is held by a
# pause that has ended, which that release lets go.
DOWNGRADE = """
DROP INDEX {s}.due_turns;
DROP INDEX {s}.destinations_limited;
DROP INDEX {s}.pauses_drains;
ALTER TABLE {s}.pauses DROP CONSTRAINT pauses_drain;
ALTER TABLE {s}.pauses DROP COLUMN stopped_at;
ALTER TABLE {s}.pauses DROP COLUMN drained_at;
ALTER TABLE {s}.pauses DROP COLUMN drain_until;
DELETE FROM {s}.notices WHERE kind = 'breaker_opened';
ALTER TABLE {s}.notices DROP CONSTRAINT notices_kind_check;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_kind_check CHECK (kind IN ('destination_gone', 'destination_failing', 'channel_held')) NOT VALID;
ALTER TABLE {s}.destinations DROP CONSTRAINT destinations_breaker;
ALTER TABLE {s}.destinations DROP COLUMN probe_id;
ALTER TABLE {s}.destinations DROP COLUMN breaker_times;
ALTER TABLE {s}.destinations DROP COLUMN breaker_opened_at;
ALTER TABLE {s}.destinations DROP COLUMN timed_out_at;
ALTER TABLE {s}.due DROP CONSTRAINT due_waits_for_a_turn;
ALTER TABLE {s}.due DROP COLUMN waits_since;
ALTER TABLE {s}.due DROP COLUMN turn_at;
ALTER TABLE {s}.due DROP COLUMN rate_id;
DROP TABLE {s}.rate_tails, {s}.rates;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("due_turns", "due", "(rate_id, waits_since) WHERE status = 'pending' AND turn_at = wake_at")
    build_index(
        "destinations_limited", "destinations", "(id) WHERE timed_out_at IS NOT NULL OR breaker_opened_at IS NOT NULL"
    )
    build_index("pauses_drains", "pauses", "(paused_at) WHERE drain_until IS NOT NULL AND drained_at IS NULL")
    run(VALIDATE)


def downgrade() -> None:
    run(DOWNGRADE)

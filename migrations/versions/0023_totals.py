"""What metrics and the SLO are counted from: since when a call could be made, running totals, and facts by day and tenant."""

from alembic import context, op

from reminders.ledger.migration_steps import build_index, run

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# `ready_at` is since when nothing but our own doing stood before a call; null of rows that an older release leased.
# `late_within` and the labels of `called` and `delivered` are bounds in seconds: what lies between the bound before and it.
UPGRADE = """
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS ready_at timestamptz;
ALTER TABLE {s}.delivery_attempts ADD COLUMN IF NOT EXISTS ready_at timestamptz;
CREATE TABLE IF NOT EXISTS {s}.totals (
    name text NOT NULL,
    channel text NOT NULL,
    label text NOT NULL,
    value double precision NOT NULL CHECK (value >= 0),
    PRIMARY KEY (name, channel, label)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {s}.slo_days (
    day date NOT NULL,
    tenant_id text NOT NULL,
    late_within double precision NOT NULL CHECK (late_within > 0),
    called bigint NOT NULL CHECK (called >= 0),
    delivered bigint NOT NULL CHECK (delivered >= 0),
    PRIMARY KEY (day, tenant_id, late_within)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {s}.counted_up_to (
    name text PRIMARY KEY,
    recorded_at timestamptz NOT NULL,
    counted_at timestamptz NOT NULL
);
INSERT INTO {s}.counted_up_to (name, recorded_at, counted_at)
VALUES ('attempts', clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX IF NOT EXISTS delivery_attempts_recorded ON ONLY {s}.delivery_attempts (recorded_at);
"""

# Months that are made from here on have the index by themselves.
_WITHOUT = """
SELECT p.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
WHERE i.inhparent = '{s}.delivery_attempts'::regclass AND NOT EXISTS (
    SELECT 1 FROM pg_inherits a JOIN pg_index x ON x.indexrelid = a.inhrelid
    WHERE a.inhparent = '{s}.delivery_attempts_recorded'::regclass AND x.indrelid = p.oid)
ORDER BY p.relname
"""

DOWNGRADE = """
DROP INDEX {s}.notification_deliveries_uncertain;
DROP INDEX {s}.due_quiet;
DROP INDEX {s}.due_parked;
DROP INDEX {s}.delivery_attempts_recorded;
DROP TABLE {s}.totals, {s}.slo_days, {s}.counted_up_to;
ALTER TABLE {s}.delivery_attempts DROP COLUMN ready_at;
ALTER TABLE {s}.due DROP COLUMN ready_at;
"""


def upgrade() -> None:
    run(UPGRADE)
    for partition in _partitions_without_index():
        name = f"{partition}_recorded"
        build_index(name, partition, "(recorded_at)")
        run(f"ALTER INDEX {{s}}.delivery_attempts_recorded ATTACH PARTITION {{s}}.{name};\n")
    build_index("due_parked", "due", "(wake_at) WHERE status = 'pending' AND attempts > 0")
    build_index("due_quiet", "due", "(wake_at) WHERE status = 'pending' AND quiet_until = wake_at")
    build_index(
        "notification_deliveries_uncertain",
        "notification_deliveries",
        "(uncertain_since) WHERE uncertain_since IS NOT NULL",
    )


def downgrade() -> None:
    run(DOWNGRADE)


def _partitions_without_index() -> list[str]:
    if context.is_offline_mode():
        return ["delivery_attempts_default"]
    sql = _WITHOUT.replace("{s}", context.config.attributes["schema"])
    return [row[0] for row in op.get_bind().exec_driver_sql(sql)]

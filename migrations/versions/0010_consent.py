"""Recipients, preferences, suppressions, critical kinds; and why a reminder was suppressed, or waits for quiet hours."""

from reminders.ledger.migration_steps import run

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# '' stands for every kind or channel. What was said is never changed: it ends, and stays as evidence. `clear_until` is the
# instant before which the recipient is surely not in quiet hours, as far as somebody has worked it out.
#
# No row can break the CHECKs of existing tables: one is wider than before, the others are about columns that are new. NOT
# VALID says so, and guards every write all the same.
UPGRADE = """
CREATE TABLE {s}.recipients (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    user_id text NOT NULL CHECK (user_id <> ''),
    zone text,
    locale text,
    quiet_from time,
    quiet_to time,
    clear_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id),
    CHECK ((quiet_from IS NULL) = (quiet_to IS NULL)),
    CHECK (quiet_from <> quiet_to),
    CHECK ((quiet_from IS NOT NULL) <= (zone IS NOT NULL)),
    CHECK ((clear_until IS NOT NULL) <= (quiet_from IS NOT NULL))
) WITH (fillfactor = 90);

CREATE TABLE {s}.preferences (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    user_id text NOT NULL CHECK (user_id <> ''),
    kind text NOT NULL DEFAULT '',
    channel text NOT NULL DEFAULT '',
    allowed boolean NOT NULL,
    source text NOT NULL,
    actor text NOT NULL,
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz
);
CREATE UNIQUE INDEX preferences_standing ON {s}.preferences (tenant_id, user_id, kind, channel) WHERE ended_at IS NULL;

CREATE TABLE {s}.suppressions (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    user_id text CHECK (user_id <> ''),
    destination_id uuid,
    channel text NOT NULL DEFAULT '',
    kind text NOT NULL DEFAULT '',
    reason text NOT NULL,
    source text NOT NULL,
    actor text NOT NULL,
    suppressed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lifted_at timestamptz,
    lifted_by text,
    lifted_reason text,
    CHECK ((user_id IS NULL) <> (destination_id IS NULL)),
    CHECK ((destination_id IS NOT NULL) <= (channel = '')),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL)),
    CHECK ((lifted_at IS NULL) = (lifted_reason IS NULL))
);
CREATE UNIQUE INDEX suppressions_of_user ON {s}.suppressions (tenant_id, user_id, channel, kind)
    WHERE lifted_at IS NULL AND user_id IS NOT NULL;
CREATE UNIQUE INDEX suppressions_of_destination ON {s}.suppressions (tenant_id, destination_id, kind)
    WHERE lifted_at IS NULL AND destination_id IS NOT NULL;

CREATE TABLE {s}.kind_policies (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    kind text NOT NULL CHECK (kind <> ''),
    critical boolean NOT NULL,
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, kind)
);

ALTER TABLE {s}.reminders ADD COLUMN suppressed_by uuid;
ALTER TABLE {s}.reminders ADD COLUMN suppressed_reason text;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_suppressed_by CHECK ((status = 'suppressed') = (suppressed_by IS NOT NULL) AND (suppressed_by IS NULL) = (suppressed_reason IS NULL)) NOT VALID;
ALTER TABLE {s}.due ADD COLUMN quiet_until timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notification_deliveries DROP CONSTRAINT notification_deliveries_status_check;
ALTER TABLE {s}.notification_deliveries ADD CONSTRAINT notification_deliveries_status_check CHECK (status IN ('sending', 'retrying', 'delivered', 'unknown', 'dead', 'cancelled', 'expired', 'superseded', 'suppressed')) NOT VALID;

CREATE OR REPLACE VIEW {s}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE(n.claim_number, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at,
       d.hold_id, d.held_at, z.reason AS hold_reason, r.suppressed_by, r.suppressed_reason,
       CASE WHEN d.status = 'pending' AND d.quiet_until = d.wake_at THEN d.quiet_until END AS quiet_until
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {s}.pauses z ON z.id = d.hold_id;
"""

# The older release has no word for what was suppressed: that nothing is sent is what it must go on to know.
DOWNGRADE = """
DROP VIEW {s}.reminders_v1;
CREATE VIEW {s}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE(n.claim_number, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at,
       d.hold_id, d.held_at, z.reason AS hold_reason
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {s}.pauses z ON z.id = d.hold_id;
ALTER TABLE {s}.notification_deliveries DROP CONSTRAINT notification_deliveries_status_check;
UPDATE {s}.notification_deliveries SET status = 'cancelled' WHERE status = 'suppressed';
ALTER TABLE {s}.notification_deliveries ADD CONSTRAINT notification_deliveries_status_check CHECK (status IN ('sending', 'retrying', 'delivered', 'unknown', 'dead', 'cancelled', 'expired', 'superseded')) NOT VALID;
ALTER TABLE {s}.due DROP COLUMN quiet_until;
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_suppressed_by;
UPDATE {s}.reminders SET status = 'cancelled' WHERE status = 'suppressed';
ALTER TABLE {s}.reminders DROP COLUMN suppressed_reason;
ALTER TABLE {s}.reminders DROP COLUMN suppressed_by;
DROP TABLE {s}.kind_policies, {s}.suppressions, {s}.preferences, {s}.recipients;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

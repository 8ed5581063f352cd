"""Pauses that destinations ask for, destinations that are gone, look-ups, and what a tenant wants stricter."""

from reminders.ledger.migration_steps import run

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# What follows never reads a table from end to end: no row can break a CHECK that is wider than the one before it, or is
# about columns that are new. NOT VALID says so, and guards every write all the same. The releases before this one read
# null nowhere but in a destination that this release has written.
UPGRADE = """
-- squawk-ignore ban-drop-not-null
ALTER TABLE {s}.destinations ALTER COLUMN deduplicates DROP NOT NULL;
ALTER TABLE {s}.destinations ADD COLUMN hold_until timestamptz;
ALTER TABLE {s}.destinations ADD COLUMN hold_reason text;
ALTER TABLE {s}.destinations ADD COLUMN disabled_at timestamptz;
ALTER TABLE {s}.destinations ADD COLUMN disabled_reason text;
ALTER TABLE {s}.destinations ADD COLUMN enabled_at timestamptz;
ALTER TABLE {s}.destinations ADD COLUMN enabled_reason text;
ALTER TABLE {s}.destinations ADD CONSTRAINT destinations_hold_reason CHECK ((hold_until IS NULL) = (hold_reason IS NULL)) NOT VALID;
ALTER TABLE {s}.destinations ADD CONSTRAINT destinations_disabled_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)) NOT VALID;
ALTER TABLE {s}.destinations ADD CONSTRAINT destinations_enabled_reason CHECK ((enabled_at IS NULL) = (enabled_reason IS NULL)) NOT VALID;

CREATE TABLE {s}.channel_holds (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    hold_until timestamptz NOT NULL,
    hold_reason text NOT NULL,
    PRIMARY KEY (tenant_id, channel)
);

CREATE TABLE {s}.tenant_policies (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    channel text NOT NULL DEFAULT '',
    on_unknown text CHECK (on_unknown IN ('look_up', 'review')),
    retry_delays double precision[] CHECK (cardinality(retry_delays) > 0 AND 0 <= ALL (retry_delays)),
    PRIMARY KEY (tenant_id, channel)
);

-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.delivery_attempts DROP CONSTRAINT delivery_attempts_outcome_check;
ALTER TABLE {s}.delivery_attempts ADD CONSTRAINT delivery_attempts_outcome_check CHECK (outcome IN ('delivered', 'retry', 'rejected', 'unknown', 'blocked')) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_last_outcome_check;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_last_outcome_check CHECK (last_outcome IN ('delivered', 'retry', 'rejected', 'unknown', 'blocked')) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notification_deliveries DROP CONSTRAINT notification_deliveries_on_unknown_check;
ALTER TABLE {s}.notification_deliveries ADD CONSTRAINT notification_deliveries_on_unknown_check CHECK (on_unknown IN ('repeat', 'look_up', 'review')) NOT VALID;
"""

# What the older release has no word for becomes what it would have done: a pause was a retry, a look-up a review.
DOWNGRADE = """
UPDATE {s}.delivery_attempts SET outcome = 'retry' WHERE outcome = 'blocked';
UPDATE {s}.reminders SET last_outcome = 'retry' WHERE last_outcome = 'blocked';
UPDATE {s}.notification_deliveries SET on_unknown = 'review' WHERE on_unknown = 'look_up';
ALTER TABLE {s}.notification_deliveries DROP CONSTRAINT notification_deliveries_on_unknown_check;
ALTER TABLE {s}.notification_deliveries ADD CONSTRAINT notification_deliveries_on_unknown_check CHECK (on_unknown IN ('repeat', 'review')) NOT VALID;
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_last_outcome_check;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_last_outcome_check CHECK (last_outcome IN ('delivered', 'retry', 'rejected', 'unknown')) NOT VALID;
ALTER TABLE {s}.delivery_attempts DROP CONSTRAINT delivery_attempts_outcome_check;
ALTER TABLE {s}.delivery_attempts ADD CONSTRAINT delivery_attempts_outcome_check CHECK (outcome IN ('delivered', 'retry', 'rejected', 'unknown')) NOT VALID;
DROP TABLE {s}.tenant_policies, {s}.channel_holds;
DELETE FROM {s}.destinations WHERE deduplicates IS NULL;
ALTER TABLE {s}.destinations DROP COLUMN enabled_reason;
ALTER TABLE {s}.destinations DROP COLUMN enabled_at;
ALTER TABLE {s}.destinations DROP COLUMN disabled_reason;
ALTER TABLE {s}.destinations DROP COLUMN disabled_at;
ALTER TABLE {s}.destinations DROP COLUMN hold_reason;
ALTER TABLE {s}.destinations DROP COLUMN hold_until;
ALTER TABLE {s}.destinations ALTER COLUMN deduplicates SET NOT NULL;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

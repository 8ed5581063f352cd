"""Pauses: what an operator holds until further notice, and the rows of `due` that are held by them."""

from reminders.ledger.migration_steps import build_index, run

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# What a pause names must be the reminder's; what it leaves out may be anything. `next_at` is the turn of the next row
# that is let go at the rate, `wait_left` what is left of a row's bound on all waiting, `held_for` how much of the time since a budget's
# first attempt does not count.
UPGRADE = """
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS {s}.pauses (
    id uuid PRIMARY KEY,
    tenant_id text CHECK (tenant_id <> ''),
    channel text CHECK (channel <> ''),
    kind text CHECK (kind <> ''),
    destination_id uuid,
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    ended_by text,
    ended_host text,
    ended_reason text,
    rate double precision CHECK (rate > 0),
    next_at timestamptz,
    released_at timestamptz,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL)),
    CHECK ((ended_at IS NULL) = (ended_host IS NULL)),
    CHECK ((ended_reason IS NOT NULL) <= (ended_at IS NOT NULL)),
    CHECK ((rate IS NOT NULL) <= (ended_at IS NOT NULL)),
    CHECK ((next_at IS NOT NULL) <= (ended_at IS NOT NULL)),
    CHECK ((released_at IS NOT NULL) <= (ended_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS pauses_active ON {s}.pauses (paused_at) WHERE ended_at IS NULL;

ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS hold_id uuid;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS held_at timestamptz;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS wait_left interval;
ALTER TABLE {s}.notification_deliveries ADD COLUMN IF NOT EXISTS held_for interval;
-- squawk-ignore ban-drop-not-null
ALTER TABLE {s}.due ALTER COLUMN wake_at DROP NOT NULL;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_status_check;
ALTER TABLE {s}.due ADD CONSTRAINT due_status_check CHECK (status IN ('pending', 'leased', 'published', 'sending', 'held')) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_held_never_wakes;
ALTER TABLE {s}.due ADD CONSTRAINT due_held_never_wakes CHECK ((status = 'held') = (wake_at IS NULL)) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_held_by;
ALTER TABLE {s}.due ADD CONSTRAINT due_held_by CHECK ((status = 'held') = (hold_id IS NOT NULL) AND (hold_id IS NULL) = (held_at IS NULL)) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_wait_left;
ALTER TABLE {s}.due ADD CONSTRAINT due_wait_left CHECK ((wait_left IS NOT NULL) <= (status = 'held')) NOT VALID;

CREATE OR REPLACE VIEW {s}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE(n.claim_number, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at,
       d.hold_id, d.held_at, z.reason AS hold_reason
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {s}.pauses z ON z.id = d.hold_id;
"""

VALIDATE = """
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_status_check;
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_held_never_wakes;
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_held_by;
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_wait_left;
"""

# The older release knows no pauses: what is held is due.
DOWNGRADE = """
DROP VIEW {s}.reminders_v1;
CREATE VIEW {s}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE(n.claim_number, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key;
DROP INDEX {s}.due_held;
ALTER TABLE {s}.due DROP CONSTRAINT due_held_by;
ALTER TABLE {s}.due DROP CONSTRAINT due_wait_left;
ALTER TABLE {s}.due DROP CONSTRAINT due_held_never_wakes;
UPDATE {s}.due
SET status = 'pending', wake_at = LEAST(clock_timestamp(), give_up_at), give_up_at = LEAST(clock_timestamp() + wait_left, give_up_at)
WHERE status = 'held';
ALTER TABLE {s}.due ALTER COLUMN wake_at SET NOT NULL;
ALTER TABLE {s}.due DROP CONSTRAINT due_status_check;
ALTER TABLE {s}.due ADD CONSTRAINT due_status_check CHECK (status IN ('pending', 'leased', 'published', 'sending')) NOT VALID;
ALTER TABLE {s}.due DROP COLUMN wait_left;
ALTER TABLE {s}.due DROP COLUMN held_at;
ALTER TABLE {s}.due DROP COLUMN hold_id;
ALTER TABLE {s}.notification_deliveries DROP COLUMN held_for;
DROP TABLE {s}.pauses;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("due_held", "due", "(hold_id, held_at) WHERE hold_id IS NOT NULL")
    run(VALIDATE)


def downgrade() -> None:
    run(DOWNGRADE)

"""Quarantines: what was done after a restore from a backup, and the version of which a reminder still has the key."""

from reminders.ledger.migration_steps import commit, run

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

# `base` is the first version of the epoch that a quarantine begins. `cutoff` is null until the turns of series are planned;
# `reached` is the last reminder that was looked at, in the order of ids.
UPGRADE = """
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS {s}.quarantines (
    id uuid PRIMARY KEY,
    since timestamptz NOT NULL,
    base integer NOT NULL CHECK (base > 0),
    pause_id uuid NOT NULL,
    letters boolean NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    reason text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    planned bigint NOT NULL DEFAULT 0,
    cutoff timestamptz,
    reached uuid,
    review bigint NOT NULL DEFAULT 0,
    repeat bigint NOT NULL DEFAULT 0,
    open_claim bigint NOT NULL DEFAULT 0,
    unsent bigint NOT NULL DEFAULT 0,
    asleep bigint NOT NULL DEFAULT 0,
    ahead bigint NOT NULL DEFAULT 0,
    letter bigint NOT NULL DEFAULT 0,
    ended bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    CHECK ((reached IS NOT NULL) <= (cutoff IS NOT NULL)),
    CHECK ((ended_at IS NOT NULL) <= (cutoff IS NOT NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX IF NOT EXISTS quarantines_unfinished ON {s}.quarantines ((ended_at IS NULL)) WHERE ended_at IS NULL;

ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS key_version integer;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.reminders DROP CONSTRAINT IF EXISTS reminders_key_version;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_key_version CHECK (key_version >= 1 AND key_version < version) NOT VALID;
"""

VALIDATE = """
ALTER TABLE {s}.reminders VALIDATE CONSTRAINT reminders_key_version;
"""

# For the older release a key is that of its version. What moves afterwards may meet a key of before the restore.
DOWNGRADE = """
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_key_version;
UPDATE {s}.reminders SET version = key_version
WHERE key_version IS NOT NULL AND delivery_key = {s}.delivery_key(identity_key, key_version);
ALTER TABLE {s}.reminders DROP COLUMN key_version;
DROP TABLE {s}.quarantines;
"""


def upgrade() -> None:
    run(UPGRADE)
    commit()
    run(VALIDATE)


def downgrade() -> None:
    run(DOWNGRADE)

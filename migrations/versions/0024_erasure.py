"""Erasure: what was erased, and the key that names erased users; and how long a tenant has things kept."""

from reminders.ledger.migration_steps import commit, run, run_folder

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

# What is erased never lives again. Of an erasure, `user_token` stands for the user, `destination_ids` are the places that are
# still to be looked at, and `touched` counts rows by table. `keep` is in seconds.
UPGRADE = """
SET LOCAL client_min_messages = warning;
ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS erased_at timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.reminders DROP CONSTRAINT IF EXISTS reminders_erased;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_erased CHECK (erased_at IS NULL OR status <> 'live') NOT VALID;
ALTER TABLE {s}.series ADD COLUMN IF NOT EXISTS erased_at timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.series DROP CONSTRAINT IF EXISTS series_erased;
ALTER TABLE {s}.series ADD CONSTRAINT series_erased CHECK (erased_at IS NULL OR status = 'cancelled') NOT VALID;

CREATE TABLE IF NOT EXISTS {s}.erasure_key (
    sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
    key bytea NOT NULL CHECK (octet_length(key) = 32)
);

CREATE TABLE IF NOT EXISTS {s}.erasures (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    user_token text NOT NULL CHECK (user_token <> ''),
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    destination_ids uuid[] NOT NULL DEFAULT '{}',
    touched jsonb NOT NULL DEFAULT '{}',
    CHECK ((finished_at IS NOT NULL) <= (cardinality(destination_ids) = 0))
);
CREATE UNIQUE INDEX IF NOT EXISTS erasures_under_way ON {s}.erasures (tenant_id, user_token) WHERE finished_at IS NULL;

CREATE TABLE IF NOT EXISTS {s}.retention_policies (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    about text NOT NULL CHECK (about IN ('reminders', 'evidence')),
    keep double precision NOT NULL CHECK (keep >= 86400),
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, about)
);
"""

VALIDATE = """
ALTER TABLE {s}.reminders VALIDATE CONSTRAINT reminders_erased;
ALTER TABLE {s}.series VALIDATE CONSTRAINT series_erased;
"""

# The older release does not know that what was erased must not be revived: it has no address, and no provider takes that. What
# an erased user had refused is not found any more; whoever goes back suppresses it anew.
DOWNGRADE = """
DROP TABLE {s}.retention_policies, {s}.erasures, {s}.erasure_key;
ALTER TABLE {s}.series DROP CONSTRAINT series_erased;
ALTER TABLE {s}.series DROP COLUMN erased_at;
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_erased;
ALTER TABLE {s}.reminders DROP COLUMN erased_at;
"""


def upgrade() -> None:
    run(UPGRADE)
    run_folder("0024")
    commit()
    run(VALIDATE)


def downgrade() -> None:
    run_folder("0024_down")
    run(DOWNGRADE)

"""Secrets of one's own: of a destination, or of a tenant's channel, encrypted; and who changed them, when and why."""

from reminders.ledger.migration_steps import run

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# A mark is the id of the last change. An inherited row stands for whatever signed before the first secret of one's own,
# and goes on until the row retires. Ciphertexts are Fernet tokens: what does not look like one is not taken, and of what
# has retired none need be kept.
UPGRADE = """
CREATE TABLE {s}.secrets (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    destination_id uuid,
    inherited boolean NOT NULL DEFAULT false,
    ciphertext text CHECK (starts_with(ciphertext, 'gAAAA') AND length(ciphertext) >= 100),
    key_fingerprint text CHECK (key_fingerprint <> ''),
    fingerprint text CHECK (fingerprint <> ''),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    retires_at timestamptz CHECK (retires_at >= created_at),
    CONSTRAINT secrets_inherited CHECK (inherited = (fingerprint IS NULL) AND (NOT inherited OR ciphertext IS NULL)),
    CONSTRAINT secrets_encrypted CHECK ((ciphertext IS NULL) = (key_fingerprint IS NULL)),
    CONSTRAINT secrets_there_while_signing CHECK (ciphertext IS NOT NULL OR retires_at IS NOT NULL)
);
CREATE UNIQUE INDEX secrets_one_newest ON {s}.secrets (tenant_id, channel, destination_id) NULLS NOT DISTINCT WHERE retires_at IS NULL;
CREATE INDEX secrets_of_place ON {s}.secrets (tenant_id, channel, destination_id);

CREATE TABLE {s}.secret_changes (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    destination_id uuid,
    action text NOT NULL CHECK (action IN ('rotate', 'revoke')),
    fingerprints text[] NOT NULL,
    former_until timestamptz,
    reason text,
    actor text NOT NULL,
    host text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT secret_changes_reason CHECK (action = 'rotate' OR reason IS NOT NULL),
    CONSTRAINT secret_changes_former CHECK ((action = 'rotate') = (former_until IS NOT NULL))
);

ALTER TABLE {s}.destinations ADD COLUMN secret_mark uuid;
ALTER TABLE {s}.tenant_policies ADD COLUMN secret_mark uuid;
"""

# The older release signs with derived secrets only, whatever receivers have by now. Rows that only carried a mark say
# nothing any more.
DOWNGRADE = """
DELETE FROM {s}.tenant_policies WHERE secret_mark IS NOT NULL AND on_unknown IS NULL AND retry_delays IS NULL;
ALTER TABLE {s}.tenant_policies DROP COLUMN secret_mark;
ALTER TABLE {s}.destinations DROP COLUMN secret_mark;
DROP TABLE {s}.secret_changes, {s}.secrets;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

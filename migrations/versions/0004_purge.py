"""What is remembered of purged reminders, so that none is ever made a second time; and the passes of the purge."""

from reminders.ledger.migration_steps import run

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

UPGRADE = """
CREATE TABLE {s}.purges (
    id uuid PRIMARY KEY,
    older_than double precision NOT NULL CHECK (older_than >= 0),
    cutoff timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reached uuid,
    marked bigint NOT NULL DEFAULT 0,
    purged bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    waits_for text[],
    settled_at timestamptz,
    CHECK ((waits_for IS NOT NULL) <= (ended_at IS NOT NULL)),
    CHECK ((settled_at IS NOT NULL) <= (waits_for IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX purges_unsettled ON {s}.purges (started_at) WHERE settled_at IS NULL;

CREATE TABLE {s}.keys_seen (
    identity_key bytea PRIMARY KEY CHECK (octet_length(identity_key) = 32),
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    reminder_id uuid NOT NULL,
    delivery_key text NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    due_at timestamptz NOT NULL,
    status text NOT NULL
        CHECK (status IN ('delivered', 'cancelled', 'expired', 'suppressed', 'shadowed', 'dead')),
    finished_at timestamptz NOT NULL,
    purge_id uuid NOT NULL,
    purged_at timestamptz
) WITH (fillfactor = 90);
CREATE INDEX keys_seen_reminder ON {s}.keys_seen (reminder_id);
"""

DOWNGRADE = """
DROP TABLE {s}.keys_seen, {s}.purges;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

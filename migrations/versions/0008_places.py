"""Places that a tenant may reach although they are not public, destinations that keep failing, and notices."""

from reminders.ledger.migration_steps import run

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# A notice is open until somebody has seen it; about one thing there is one open notice.
UPGRADE = """
ALTER TABLE {s}.destinations ADD COLUMN failing_since timestamptz;

CREATE TABLE {s}.allowed_places (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    place text NOT NULL CHECK (place <> ''),
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    allowed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    ended_by text,
    ended_host text,
    ended_reason text,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL)),
    CHECK ((ended_at IS NULL) = (ended_host IS NULL)),
    CHECK ((ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX allowed_places_standing ON {s}.allowed_places (tenant_id, place) WHERE ended_at IS NULL;

CREATE TABLE {s}.notices (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('destination_gone', 'destination_failing', 'channel_held')),
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    destination_id uuid,
    reason text NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz,
    seen_by text,
    seen_host text,
    CHECK ((kind = 'channel_held') = (destination_id IS NULL)),
    CHECK ((seen_at IS NULL) = (seen_by IS NULL)),
    CHECK ((seen_at IS NULL) = (seen_host IS NULL))
);
CREATE UNIQUE INDEX notices_open ON {s}.notices (kind, tenant_id, channel, destination_id) NULLS NOT DISTINCT WHERE seen_at IS NULL;
CREATE INDEX notices_by_time ON {s}.notices (noticed_at);
"""

DOWNGRADE = """
DROP TABLE {s}.notices, {s}.allowed_places;
ALTER TABLE {s}.destinations DROP COLUMN failing_since;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

"""Series: what recurs, what was skipped of it, and which reminders are its occurrences; how late reminders may be."""

from reminders.ledger.migration_steps import build_index, run

revision = "0012"
down_revision = "0010"
branch_labels = None
depends_on = None

# Times of the wall clock are text: they are no instants. `planned_until` is the instant up to which every turn is decided,
# `plan_at` when the planner looks at it next, `planned_zone` the zone that its occurrences were last planned by.
UPGRADE = """
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS {s}.series (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    user_id text NOT NULL CHECK (user_id <> ''),
    kind text NOT NULL CHECK (kind <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    destination text NOT NULL,
    destination_id uuid NOT NULL,
    deduplicates boolean NOT NULL,
    reference text,
    slot text NOT NULL DEFAULT '',
    data jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(data) = 'object'),
    identity_key bytea NOT NULL CHECK (octet_length(identity_key) = 32),
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    start_wall text NOT NULL,
    rule text,
    extra text[] NOT NULL DEFAULT '{}',
    left_out text[] NOT NULL DEFAULT '{}',
    skipped text[] NOT NULL DEFAULT '{}',
    zone text NOT NULL,
    follows_user boolean NOT NULL DEFAULT false,
    catch_up text NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('latest', 'skip', 'all')),
    max_lateness double precision CHECK (max_lateness > 0),
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'ended', 'cancelled')),
    version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    planned_until timestamptz NOT NULL,
    planned_zone text NOT NULL,
    plan_at timestamptz,
    replan boolean NOT NULL DEFAULT false,
    fault text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((status = 'active') = (plan_at IS NOT NULL)),
    CHECK ((fault IS NOT NULL) <= (status = 'active'))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX IF NOT EXISTS series_identity_key ON {s}.series (identity_key);
CREATE INDEX IF NOT EXISTS series_plan ON {s}.series (plan_at) WHERE plan_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS series_user ON {s}.series (tenant_id, user_id);

CREATE TABLE IF NOT EXISTS {s}.series_skips (
    series_id uuid NOT NULL,
    recurrence_id text NOT NULL,
    due_at timestamptz NOT NULL,
    lateness interval NOT NULL,
    reason text NOT NULL CHECK (reason IN ('superseded', 'too_late', 'cap', 'missed', 'paused')),
    count integer NOT NULL DEFAULT 1 CHECK (count >= 1),
    skipped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (series_id, recurrence_id)
);

CREATE TABLE IF NOT EXISTS {s}.lateness_policies (
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    kind text NOT NULL DEFAULT '',
    max_lateness double precision NOT NULL CHECK (max_lateness > 0),
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, kind)
);

ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS series_id uuid;
ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS recurrence_id text;
ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS moved_at timestamptz;
ALTER TABLE {s}.reminders ADD COLUMN IF NOT EXISTS withdrawn_at timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.reminders DROP CONSTRAINT IF EXISTS reminders_of_series;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_of_series CHECK ((series_id IS NULL) = (recurrence_id IS NULL) AND (moved_at IS NULL AND withdrawn_at IS NULL OR series_id IS NOT NULL) AND (withdrawn_at IS NULL OR status = 'cancelled')) NOT VALID;
"""

# The older release plans nothing: what was withdrawn stays cancelled, and what was planned is sent.
DOWNGRADE = """
DROP INDEX {s}.reminders_series;
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_of_series;
ALTER TABLE {s}.reminders DROP COLUMN withdrawn_at;
ALTER TABLE {s}.reminders DROP COLUMN moved_at;
ALTER TABLE {s}.reminders DROP COLUMN recurrence_id;
ALTER TABLE {s}.reminders DROP COLUMN series_id;
DROP TABLE {s}.lateness_policies, {s}.series_skips, {s}.series;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("reminders_series", "reminders", "(series_id, due_at) WHERE series_id IS NOT NULL")
    run("ALTER TABLE {s}.reminders VALIDATE CONSTRAINT reminders_of_series;")


def downgrade() -> None:
    run(DOWNGRADE)

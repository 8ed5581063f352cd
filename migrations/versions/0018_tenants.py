"""Tenants: off, shadow or live, in cohorts, and of one dispatcher each; and the ledger of what shadow would have sent."""

from reminders.ledger.migration_steps import build_index, run, run_folder

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# A tenant's own row is that of no channel. It has no mode before the first scan that meets the tenant; those that the ledger
# knows already are live, and belong to `main`. An epoch is given by the first handover, and another by each later one.
UPGRADE = """
SET LOCAL client_min_messages = warning;
ALTER TABLE {s}.tenant_policies ADD COLUMN IF NOT EXISTS mode text;
ALTER TABLE {s}.tenant_policies ADD COLUMN IF NOT EXISTS dispatcher text;
ALTER TABLE {s}.tenant_policies ADD COLUMN IF NOT EXISTS epoch integer;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.tenant_policies DROP CONSTRAINT IF EXISTS tenant_policies_mode;
ALTER TABLE {s}.tenant_policies ADD CONSTRAINT tenant_policies_mode CHECK (mode IN ('off', 'shadow', 'live') AND (mode IS NOT NULL) <= (channel = '')) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.tenant_policies DROP CONSTRAINT IF EXISTS tenant_policies_dispatcher;
ALTER TABLE {s}.tenant_policies ADD CONSTRAINT tenant_policies_dispatcher CHECK (dispatcher <> '' AND (dispatcher IS NULL) = (mode IS NULL) AND (epoch IS NOT NULL) <= (mode IS NOT NULL) AND epoch > 0) NOT VALID;

CREATE TABLE IF NOT EXISTS {s}.new_tenants (
    sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
    dispatcher text NOT NULL CHECK (dispatcher <> '')
);

CREATE TABLE IF NOT EXISTS {s}.cohort_members (
    cohort text NOT NULL CHECK (cohort <> ''),
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    actor text NOT NULL,
    host text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (cohort, tenant_id)
);
CREATE INDEX IF NOT EXISTS cohort_members_tenant ON {s}.cohort_members (tenant_id);

CREATE TABLE IF NOT EXISTS {s}.tenant_changes (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL CHECK (tenant_id <> ''),
    mode_before text,
    mode text NOT NULL,
    dispatcher_before text,
    dispatcher text NOT NULL,
    epoch integer,
    cohort text,
    reason text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS tenant_changes_of ON {s}.tenant_changes (tenant_id, changed_at);

CREATE TABLE IF NOT EXISTS {s}.shadow_deliveries (
    delivery_key text PRIMARY KEY,
    reminder_id uuid NOT NULL,
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    channel text NOT NULL,
    reference text,
    slot text NOT NULL,
    destination_id uuid NOT NULL,
    decision text NOT NULL CHECK (decision IN ('send', 'expired', 'suppressed', 'refused', 'fault', 'undeliverable')),
    why text,
    body_hash bytea CHECK (octet_length(body_hash) = 32),
    template_id uuid,
    due_at timestamptz NOT NULL,
    decided_at timestamptz NOT NULL,
    lateness interval NOT NULL,
    worker text,
    released_at timestamptz,
    released_by text,
    released_host text,
    released_reason text,
    CHECK ((decision = 'send') = (body_hash IS NOT NULL)),
    CHECK ((decision = 'send') = (why IS NULL)),
    CHECK ((released_at IS NULL) = (released_by IS NULL) AND (released_at IS NULL) = (released_reason IS NULL) AND (released_at IS NULL) = (released_host IS NULL))
);
CREATE INDEX IF NOT EXISTS shadow_deliveries_of ON {s}.shadow_deliveries (tenant_id, decided_at);
CREATE INDEX IF NOT EXISTS shadow_deliveries_reminder ON {s}.shadow_deliveries (reminder_id);

ALTER TABLE {s}.pauses ADD COLUMN IF NOT EXISTS by_mode boolean NOT NULL DEFAULT false;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.pauses DROP CONSTRAINT IF EXISTS pauses_by_mode;
ALTER TABLE {s}.pauses ADD CONSTRAINT pauses_by_mode CHECK (NOT by_mode OR tenant_id IS NOT NULL AND channel IS NULL AND kind IS NULL AND destination_id IS NULL) NOT VALID;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS epoch integer;
"""

KNOWN_TENANTS = """
SET LOCAL enable_seqscan = off;
SET LOCAL jit = off;
INSERT INTO {s}.tenant_policies AS p (tenant_id, channel, mode, dispatcher)
WITH RECURSIVE walk AS (
    (SELECT tenant_id FROM {s}.reminders ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT following.tenant_id
    FROM walk CROSS JOIN LATERAL (SELECT r.tenant_id FROM {s}.reminders r WHERE r.tenant_id > walk.tenant_id ORDER BY r.tenant_id LIMIT 1) following
)
SELECT tenant_id, '', 'live', 'main' FROM walk
ON CONFLICT (tenant_id, channel) DO UPDATE SET mode = EXCLUDED.mode, dispatcher = EXCLUDED.dispatcher WHERE p.mode IS NULL;
INSERT INTO {s}.new_tenants (dispatcher) SELECT 'main' WHERE EXISTS (SELECT 1 FROM {s}.tenant_policies WHERE mode IS NOT NULL) ON CONFLICT DO NOTHING;
"""

VALIDATE = """
ALTER TABLE {s}.tenant_policies VALIDATE CONSTRAINT tenant_policies_mode;
ALTER TABLE {s}.tenant_policies VALIDATE CONSTRAINT tenant_policies_dispatcher;
ALTER TABLE {s}.pauses VALIDATE CONSTRAINT pauses_by_mode;
"""

# The older release knows neither modes nor owners. What is off stays paused, as by a person; what is in shadow must not be
# sent either, and is paused; what was shadowed is over.
DOWNGRADE = """
INSERT INTO {s}.pauses (id, tenant_id, reason, actor, host)
SELECT gen_random_uuid(), tenant_id, 'was in shadow, which the release before 0018 does not know', 'migration', 'migration'
FROM {s}.tenant_policies WHERE mode = 'shadow';
ALTER TABLE {s}.pauses DROP CONSTRAINT pauses_by_mode;
ALTER TABLE {s}.pauses DROP COLUMN by_mode;
ALTER TABLE {s}.due DROP COLUMN epoch;
DROP TABLE {s}.shadow_deliveries, {s}.tenant_changes, {s}.cohort_members, {s}.new_tenants;
DROP INDEX {s}.tenant_policies_owners;
DROP INDEX {s}.tenant_policies_handed_over;
ALTER TABLE {s}.tenant_policies DROP CONSTRAINT tenant_policies_mode;
ALTER TABLE {s}.tenant_policies DROP CONSTRAINT tenant_policies_dispatcher;
DELETE FROM {s}.tenant_policies WHERE on_unknown IS NULL AND retry_delays IS NULL AND secret_mark IS NULL;
ALTER TABLE {s}.tenant_policies DROP COLUMN epoch;
ALTER TABLE {s}.tenant_policies DROP COLUMN dispatcher;
ALTER TABLE {s}.tenant_policies DROP COLUMN mode;
"""


def upgrade() -> None:
    run(UPGRADE)
    run_folder("0018")
    build_index("tenant_policies_owners", "tenant_policies", "(dispatcher) WHERE dispatcher IS NOT NULL")
    build_index("tenant_policies_handed_over", "tenant_policies", "(epoch) WHERE epoch IS NOT NULL")
    run(KNOWN_TENANTS)
    run(VALIDATE)


def downgrade() -> None:
    run_folder("0018_down")
    run(DOWNGRADE)

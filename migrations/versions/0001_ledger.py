"""The ledger: reminders, the narrow table of what is due, deliveries, attempts, dead letters, the public view."""

from reminders.ledger.migration_steps import run

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE {s}.destinations (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL,
    channel text NOT NULL,
    address text NOT NULL,
    deduplicates boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE {s}.reminders (
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
    due_at timestamptz NOT NULL CHECK (due_at >= '1970-01-01Z' AND due_at < '9999-01-01Z'),
    zone text,
    expires_at timestamptz CHECK (expires_at > due_at AND expires_at < '9999-12-31Z'),
    version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    status text NOT NULL DEFAULT 'live'
        CHECK (status IN ('live', 'delivered', 'cancelled', 'expired', 'suppressed', 'shadowed', 'dead')),
    last_outcome text CHECK (last_outcome IN ('delivered', 'retry', 'rejected', 'unknown')),
    identity_key bytea NOT NULL CHECK (octet_length(identity_key) = 32),
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    delivery_key text NOT NULL,
    cancel_requested_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    CHECK ((status = 'live') = (finished_at IS NULL))
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX reminders_identity_key ON {s}.reminders (identity_key);
CREATE INDEX reminders_user ON {s}.reminders (tenant_id, user_id);
CREATE INDEX reminders_reference ON {s}.reminders (tenant_id, reference) WHERE reference IS NOT NULL;

CREATE TABLE {s}.due (
    id uuid PRIMARY KEY REFERENCES {s}.reminders (id),
    lane text NOT NULL,
    wake_at timestamptz NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'leased', 'published', 'sending')),
    delivery_key text NOT NULL,
    route text NOT NULL DEFAULT 'deliver' CHECK (route IN ('deliver', 'retry', 'alone')),
    lease_token uuid,
    published_at timestamptz,
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    alone_deaths integer NOT NULL DEFAULT 0 CHECK (alone_deaths >= 0),
    cancel_requested_at timestamptz,
    CHECK ((status IN ('leased', 'published')) <= (lease_token IS NOT NULL)),
    CHECK ((status = 'published') <= (published_at IS NOT NULL)),
    CHECK ((cancel_requested_at IS NOT NULL) <= (status = 'sending'))
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX due_wake ON {s}.due (wake_at);
CREATE INDEX due_lane_wake ON {s}.due (lane, wake_at);
CREATE INDEX due_in_flight ON {s}.due (wake_at) WHERE status IN ('published', 'sending');

CREATE TABLE {s}.notification_deliveries (
    delivery_key text PRIMARY KEY,
    reminder_id uuid NOT NULL,
    status text NOT NULL
        CHECK (status IN ('sending', 'retrying', 'delivered', 'unknown', 'dead', 'cancelled', 'expired', 'superseded')),
    claim_number integer NOT NULL CHECK (claim_number >= 1),
    claim_token uuid NOT NULL,
    claimed_at timestamptz NOT NULL,
    claimed_until timestamptz NOT NULL CHECK (claimed_until > claimed_at),
    worker text NOT NULL,
    on_unknown text NOT NULL CHECK (on_unknown IN ('repeat', 'review')),
    uncertain_since timestamptz,
    body_format integer NOT NULL,
    body_hash bytea CHECK (octet_length(body_hash) = 32),
    provider_reference text,
    budget_started_at timestamptz,
    retry_at timestamptz,
    letter_kind text CHECK (letter_kind IN ('destination', 'unknown', 'pipeline')),
    confirmed_late_at timestamptz,
    finished_at timestamptz,
    CHECK ((status = 'retrying') <= (retry_at IS NOT NULL)),
    CHECK ((status IN ('dead', 'unknown')) = (letter_kind IS NOT NULL)),
    CHECK ((status IN ('sending', 'retrying')) = (finished_at IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX notification_deliveries_reminder ON {s}.notification_deliveries (reminder_id);

CREATE TABLE {s}.delivery_attempts (
    delivery_key text NOT NULL,
    claim_number integer NOT NULL,
    claimed_at timestamptz NOT NULL,
    reminder_id uuid NOT NULL,
    worker text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('delivered', 'retry', 'rejected', 'unknown')),
    status_code integer,
    provider_reference text,
    error_class text NOT NULL,
    reason text NOT NULL,
    duration_ms integer,
    decision text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (delivery_key, claim_number, claimed_at)
) PARTITION BY RANGE (claimed_at);
CREATE TABLE {s}.delivery_attempts_default PARTITION OF {s}.delivery_attempts DEFAULT;

CREATE TABLE {s}.dead_letters (
    id uuid PRIMARY KEY,
    reminder_id uuid NOT NULL,
    delivery_key text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('destination', 'unknown', 'pipeline', 'expired')),
    error_class text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'redriven', 'discarded', 'resolved')),
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    actor text,
    host text,
    action_reason text,
    checked boolean NOT NULL DEFAULT false,
    lifted_expiry timestamptz,
    resolution text CHECK (resolution IN ('delivered', 'not_sent')),
    resolution_reference text,
    note text,
    CHECK ((state = 'open') = (closed_at IS NULL)),
    CHECK ((state <> 'open') <= (actor IS NOT NULL AND action_reason IS NOT NULL)),
    CHECK ((kind = 'expired') <= (state = 'redriven')),
    CHECK ((checked OR lifted_expiry IS NOT NULL) <= (state = 'redriven')),
    CHECK ((resolution IS NOT NULL) <= (state = 'resolved')),
    CHECK ((resolution_reference IS NOT NULL) <= COALESCE(resolution = 'delivered', false)),
    CHECK ((note IS NOT NULL) <= (resolution IS NOT NULL))
);
CREATE UNIQUE INDEX dead_letters_one_open ON {s}.dead_letters (reminder_id) WHERE state = 'open';
CREATE INDEX dead_letters_open ON {s}.dead_letters (opened_at) WHERE state = 'open';
CREATE INDEX dead_letters_not_sent ON {s}.dead_letters (reminder_id) WHERE resolution = 'not_sent';
CREATE INDEX dead_letters_reminder ON {s}.dead_letters (reminder_id);

CREATE TABLE {s}.ticks (
    name text PRIMARY KEY,
    last_at timestamptz NOT NULL,
    taken bigint NOT NULL DEFAULT 0,
    dropped bigint NOT NULL DEFAULT 0
);

CREATE VIEW {s}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE(n.claim_number, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key;
"""

DROP = """
DROP VIEW {s}.reminders_v1;
DROP TABLE {s}.ticks, {s}.dead_letters, {s}.delivery_attempts, {s}.notification_deliveries, {s}.due, {s}.reminders, {s}.destinations;
"""


def upgrade() -> None:
    run(TABLES)


def downgrade() -> None:
    run(DROP)

"""Reconciliation: what providers settled, the runs that read it, and what was decided of it."""

from reminders.ledger.migration_steps import run

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

# Facts are lines, by their provider's id; a decision's id is a hash of what it is about, and its row stays when it no longer
# follows (`withdrawn_at`). A line's `group_key` is the order it belongs to ('o:' and the reference, its own or that on a line
# of its charge), else itself ('l:' and its id). Pages of one source take turns by a lock on its row of `settlement_sources`.
# Of a run, `subject` is what two at once would do twice, `position` the last group or order decided over. `fence` is raised
# whenever somebody else takes the run over. `told` says what became of a decision's reminder: it stands for the decision as it
# is (`scheduled`) or as it once was (`left`), could not be made (`refused`, tried again), or was not to be made. Indexes begin
# with what tells most: with the source in front, and no statistics yet, a plan may read all that is the source's.
UPGRADE = """
CREATE TABLE {s}.settlement_sources (
    name text PRIMARY KEY CHECK (name <> ''),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE {s}.settlement_lines (
    source text NOT NULL,
    line_id text COLLATE "C" NOT NULL CHECK (line_id <> ''),
    category text NOT NULL CHECK (category IN ('charge', 'charge_failure', 'partial_capture_reversal', 'refund', 'refund_failure',
                                               'dispute', 'dispute_reversal', 'payout', 'payout_reversal', 'other')),
    reported_as text NOT NULL,
    currency text NOT NULL,
    gross numeric NOT NULL,
    fee numeric NOT NULL,
    net numeric NOT NULL,
    created_at timestamptz NOT NULL,
    payout_id text NOT NULL,
    payout_at timestamptz,
    source_id text,
    charge_id text,
    payment_id text,
    order_reference text,
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (line_id, source)
);
CREATE INDEX settlement_lines_group ON {s}.settlement_lines (group_key, source);
CREATE INDEX settlement_lines_charge ON {s}.settlement_lines (charge_id, source) WHERE charge_id IS NOT NULL;
CREATE INDEX settlement_lines_payout ON {s}.settlement_lines (payout_id, source);

CREATE TABLE {s}.reconciliation_runs (
    id uuid PRIMARY KEY,
    source text NOT NULL REFERENCES {s}.settlement_sources (name),
    kind text NOT NULL CHECK (kind IN ('file', 'page', 'missing', 'audit')),
    subject text NOT NULL,
    file_name text,
    pages integer NOT NULL DEFAULT 0 CHECK (pages >= 0),
    only_page integer,
    reminders boolean NOT NULL,
    config_hash text NOT NULL,
    actor text NOT NULL,
    host text NOT NULL,
    status text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'finished', 'given_up')),
    step text NOT NULL CHECK (step IN ('lines', 'decide', 'missing', 'done')),
    next_page integer NOT NULL,
    position text NOT NULL DEFAULT '',
    fence integer NOT NULL DEFAULT 1 CHECK (fence >= 1),
    lease interval NOT NULL,
    lease_until timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heard_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    error text,
    lines_new bigint NOT NULL DEFAULT 0,
    lines_changed bigint NOT NULL DEFAULT 0,
    lines_unchanged bigint NOT NULL DEFAULT 0,
    lines_rejected bigint NOT NULL DEFAULT 0,
    CHECK ((kind IN ('file', 'page')) = (file_name IS NOT NULL)),
    CHECK ((kind = 'page') = (only_page IS NOT NULL)),
    CHECK ((status = 'running') = (finished_at IS NULL)),
    CHECK ((status = 'finished') <= (step = 'done'))
);
CREATE UNIQUE INDEX reconciliation_runs_once ON {s}.reconciliation_runs (source, subject) WHERE status = 'running';
CREATE INDEX reconciliation_runs_started ON {s}.reconciliation_runs (started_at);

CREATE TABLE {s}.reconciliation_rejects (
    run_id uuid NOT NULL REFERENCES {s}.reconciliation_runs (id) ON DELETE CASCADE,
    line bigint NOT NULL,
    field text,
    reason text NOT NULL,
    PRIMARY KEY (run_id, line, reason)
);

CREATE TABLE {s}.reconciliation_run_sums (
    run_id uuid NOT NULL REFERENCES {s}.reconciliation_runs (id) ON DELETE CASCADE,
    category text NOT NULL,
    currency text NOT NULL,
    lines bigint NOT NULL CHECK (lines > 0),
    gross numeric NOT NULL,
    fee numeric NOT NULL,
    net numeric NOT NULL,
    PRIMARY KEY (run_id, category, currency)
);

CREATE TABLE {s}.reconciliation_run_payouts (
    run_id uuid NOT NULL REFERENCES {s}.reconciliation_runs (id) ON DELETE CASCADE,
    payout_id text NOT NULL,
    PRIMARY KEY (run_id, payout_id)
);

CREATE TABLE {s}.reconciliation_run_groups (
    run_id uuid NOT NULL REFERENCES {s}.reconciliation_runs (id) ON DELETE CASCADE,
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, group_key)
);

CREATE TABLE {s}.reconciliation_decisions (
    id uuid PRIMARY KEY,
    source text NOT NULL,
    name text NOT NULL CHECK (name IN ('settled', 'short_paid', 'over_paid', 'refunded', 'refund_failed', 'disputed',
                                       'dispute_won', 'failed', 'unknown_order', 'missing')),
    order_reference text COLLATE "C",
    line_id text COLLATE "C",
    payout_id text NOT NULL,
    currency text NOT NULL,
    amount numeric NOT NULL,
    total numeric,
    expected numeric,
    reason text,
    decided_at timestamptz NOT NULL,
    corrected_at timestamptz,
    withdrawn_at timestamptz,
    told text NOT NULL CHECK (told IN ('scheduled', 'left', 'refused', 'no_rule', 'too_old', 'off')),
    told_reason text,
    reminder_id uuid,
    identity_key bytea CHECK (octet_length(identity_key) = 32),
    CHECK ((name IN ('settled', 'short_paid', 'over_paid', 'missing')) = (line_id IS NULL)),
    CHECK ((line_id IS NULL) <= (order_reference IS NOT NULL)),
    CHECK ((name = 'unknown_order') = (order_reference IS NULL)),
    CHECK ((told IN ('scheduled', 'left')) <= (reminder_id IS NOT NULL)),
    CHECK ((reminder_id IS NULL) = (identity_key IS NULL))
);
CREATE INDEX reconciliation_decisions_order ON {s}.reconciliation_decisions (order_reference, source) WHERE line_id IS NULL;
CREATE INDEX reconciliation_decisions_line ON {s}.reconciliation_decisions (line_id, source) WHERE line_id IS NOT NULL;
CREATE INDEX reconciliation_decisions_missing ON {s}.reconciliation_decisions (order_reference, source)
    WHERE name = 'missing' AND withdrawn_at IS NULL;

CREATE TABLE {s}.reconciliation_run_decisions (
    run_id uuid NOT NULL REFERENCES {s}.reconciliation_runs (id) ON DELETE CASCADE,
    decision_id uuid NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('created', 'unchanged', 'corrected', 'withdrawn', 'repaired')),
    note text,
    PRIMARY KEY (run_id, decision_id)
);
"""

DOWNGRADE = """
DROP TABLE {s}.reconciliation_run_decisions, {s}.reconciliation_decisions, {s}.reconciliation_run_groups,
           {s}.reconciliation_run_payouts, {s}.reconciliation_run_sums, {s}.reconciliation_rejects, {s}.reconciliation_runs,
           {s}.settlement_lines, {s}.settlement_sources;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

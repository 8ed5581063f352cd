"""Settlement files that are kept in the ledger, in pages, so that any process can work on them."""

from reminders.ledger.migration_steps import build_index, run

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# `size` bytes have come so far, of `total` if that is known. Up to `next_line` they are in pages, the rest is `tail`. Only
# while a file is being received its `url` is there: it may carry a permission. `night` is the day that beat fetched it for,
# at most once for a source. `tries` attempts in a row have brought nothing. What is `running` has a run, which the next
# step goes on with.
UPGRADE = """
CREATE TABLE IF NOT EXISTS {s}.reconciliation_files (
    id uuid PRIMARY KEY,
    source text NOT NULL,
    name text NOT NULL,
    status text NOT NULL DEFAULT 'receiving'
        CHECK (status IN ('receiving', 'ready', 'running', 'done', 'refused')),
    size bigint NOT NULL DEFAULT 0 CHECK (size >= 0),
    total bigint,
    sha256 bytea CHECK (octet_length(sha256) = 32),
    header bytea,
    pages integer NOT NULL DEFAULT 0,
    records bigint NOT NULL DEFAULT 0,
    next_line bigint NOT NULL DEFAULT 1,
    tail bytea,
    etag text,
    url text,
    night date,
    tries integer NOT NULL DEFAULT 0,
    actor text NOT NULL,
    asked_because text,
    reason text,
    run_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (status = 'receiving' OR (url IS NULL AND tail IS NULL)),
    CHECK ((status IN ('ready', 'running', 'done')) <= (sha256 IS NOT NULL AND header IS NOT NULL)),
    CHECK ((status = 'running') <= (run_id IS NOT NULL)),
    CHECK ((status = 'refused') <= (reason IS NOT NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS reconciliation_files_night ON {s}.reconciliation_files (source, night) WHERE night IS NOT NULL;
CREATE INDEX IF NOT EXISTS reconciliation_files_under_way ON {s}.reconciliation_files (touched_at) WHERE status IN ('receiving', 'running');
CREATE INDEX IF NOT EXISTS reconciliation_files_created ON {s}.reconciliation_files (created_at);

CREATE TABLE IF NOT EXISTS {s}.reconciliation_file_pages (
    file_id uuid NOT NULL REFERENCES {s}.reconciliation_files (id) ON DELETE CASCADE,
    number integer NOT NULL CHECK (number >= 1),
    first_line bigint NOT NULL CHECK (first_line >= 1),
    records integer NOT NULL CHECK (records >= 1),
    content bytea NOT NULL,
    PRIMARY KEY (file_id, number)
);
"""

DOWNGRADE = """
DROP TABLE {s}.reconciliation_file_pages;
DROP TABLE {s}.reconciliation_files;
DROP INDEX {s}.settlement_lines_age;
"""


def upgrade() -> None:
    run(UPGRADE)
    # For the purge: the oldest lines first.
    build_index("settlement_lines_age", "settlement_lines", "(source, (COALESCE(payout_at, created_at)), line_id)")


def downgrade() -> None:
    run(DOWNGRADE)

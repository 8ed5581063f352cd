"""What a drain or a resume has let go and nobody has called yet, since when it is due, tenants' rounds under a cap, and dispatchers."""

from reminders.ledger.migration_steps import build_index, run, run_folder

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

# `let_go_by` is the pause or drain at whose rate a row has its turn, at `let_go_at`, until it is claimed; `due_since` is since when what is held
# or let go is due. `served_at` is when a tenant last had a turn of a cap that others share. A dispatcher's scanners say that they
# run, and how long the claims of their workers should last, in seconds.
UPGRADE = """
SET LOCAL client_min_messages = warning;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS let_go_by uuid;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS let_go_at timestamptz;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS due_since timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.due DROP CONSTRAINT IF EXISTS due_let_go;
ALTER TABLE {s}.due ADD CONSTRAINT due_let_go CHECK ((let_go_by IS NOT NULL) <= (num_nonnulls(due_since, let_go_at) = 2)) NOT VALID;
ALTER TABLE {s}.rate_tails ADD COLUMN IF NOT EXISTS served_at timestamptz;
CREATE TABLE IF NOT EXISTS {s}.dispatchers (
    name text PRIMARY KEY CHECK (name <> ''),
    seen_at timestamptz NOT NULL,
    claim double precision NOT NULL CHECK (claim > 0)
) WITH (fillfactor = 50);
"""

VALIDATE = """
ALTER TABLE {s}.due VALIDATE CONSTRAINT due_let_go;
"""

# What was let go keeps its turn.
DOWNGRADE = """
DROP TABLE {s}.dispatchers;
DROP INDEX {s}.due_let_go;
DROP INDEX {s}.due_held_since;
ALTER TABLE {s}.rate_tails DROP COLUMN served_at;
ALTER TABLE {s}.due DROP CONSTRAINT due_let_go;
ALTER TABLE {s}.due DROP COLUMN due_since;
ALTER TABLE {s}.due DROP COLUMN let_go_at;
ALTER TABLE {s}.due DROP COLUMN let_go_by;
"""


def upgrade() -> None:
    run(UPGRADE)
    run_folder("0027")
    build_index("due_let_go", "due", "(let_go_by, due_since) WHERE let_go_by IS NOT NULL")
    build_index("due_held_since", "due", "(hold_id, (COALESCE(due_since, held_at))) WHERE hold_id IS NOT NULL")
    run(VALIDATE)


def downgrade() -> None:
    run_folder("0027_down")
    run(DOWNGRADE)

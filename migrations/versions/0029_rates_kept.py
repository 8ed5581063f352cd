"""What is held remembers at whose rate it was being let go before."""

from reminders.ledger.migration_steps import build_index, run

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

# `rated_by` is the drain, or the pause that was resumed at a rate, to which a held row goes back if what holds it ends without a
# rate of its own. It means something of held rows only: each lease and each hold writes it anew.
UPGRADE = """
SET LOCAL client_min_messages = warning;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS rated_by uuid;
"""

DOWNGRADE = """
DROP INDEX {s}.due_rated_by;
ALTER TABLE {s}.due DROP COLUMN rated_by;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("due_rated_by", "due", "(rated_by) WHERE rated_by IS NOT NULL AND status = 'held'")


def downgrade() -> None:
    run(DOWNGRADE)

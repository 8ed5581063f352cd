"""Whether an operator has said that a destination is disabled: what nobody has said of one goes as its reminders do. And which
destinations are held, at a glance."""

from reminders.ledger.migration_steps import build_index, run

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

# What a call's outcome has disabled left a notice of the same instant. Of any other, an operator has said it, as far as can be known.
UPGRADE = """
ALTER TABLE {s}.destinations ADD COLUMN IF NOT EXISTS disabled_by_operator boolean NOT NULL DEFAULT false;
UPDATE {s}.destinations p SET disabled_by_operator = true
WHERE p.disabled_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {s}.notices n
    WHERE n.destination_id = p.id AND n.kind IN ('destination_gone', 'destination_failing') AND n.noticed_at = p.disabled_at);
"""

DOWNGRADE = """
DROP INDEX {s}.destinations_held;
ALTER TABLE {s}.destinations DROP COLUMN disabled_by_operator;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("destinations_held", "destinations", "(hold_until) WHERE hold_until IS NOT NULL")


def downgrade() -> None:
    run(DOWNGRADE)

"""Reminders that live again: callers lock them in one order, and what reconciliation has withdrawn may come back."""

from reminders.ledger.migration_steps import commit, run, run_folder

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# `withdrawn_at` was for turns of series alone.
UPGRADE = """
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.reminders DROP CONSTRAINT IF EXISTS reminders_of_series;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_of_series CHECK ((series_id IS NULL) = (recurrence_id IS NULL) AND (moved_at IS NULL OR series_id IS NOT NULL) AND (withdrawn_at IS NULL OR status = 'cancelled')) NOT VALID;
"""

# For the older release it is cancelled.
DOWNGRADE = """
UPDATE {s}.reminders SET withdrawn_at = NULL WHERE withdrawn_at IS NOT NULL AND series_id IS NULL;
ALTER TABLE {s}.reminders DROP CONSTRAINT reminders_of_series;
ALTER TABLE {s}.reminders ADD CONSTRAINT reminders_of_series CHECK ((series_id IS NULL) = (recurrence_id IS NULL) AND (moved_at IS NULL AND withdrawn_at IS NULL OR series_id IS NOT NULL) AND (withdrawn_at IS NULL OR status = 'cancelled'));
"""


def upgrade() -> None:
    run_folder("0021")
    run(UPGRADE)
    commit()
    run("ALTER TABLE {s}.reminders VALIDATE CONSTRAINT reminders_of_series;")


def downgrade() -> None:
    run_folder("0021_down")
    run(DOWNGRADE)

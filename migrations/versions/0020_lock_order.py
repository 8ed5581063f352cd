"""Locks of reminders that are revived meanwhile: always `due` before the reminder, so that callers cannot deadlock."""

from reminders.ledger.migration_steps import run_folder

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_folder("0020")


def downgrade() -> None:
    run_folder("0020_down")

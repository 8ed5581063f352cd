"""Ids that the database makes are in the order of their making within a millisecond too."""

from reminders.ledger.migration_steps import run_folder

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_folder("0031")


def downgrade() -> None:
    run_folder("0031_down")

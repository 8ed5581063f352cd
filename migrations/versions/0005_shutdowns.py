"""Workers that were told to stop, whose ended claims burn nothing; and how many claims of a delivery were given back."""

from reminders.ledger.migration_steps import run

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# `given_back` is null where it was not counted from the first claim on.
UPGRADE = """
CREATE TABLE {s}.shutdowns (
    worker text PRIMARY KEY,
    asked_at timestamptz NOT NULL
);
ALTER TABLE {s}.notification_deliveries ADD COLUMN given_back integer;
"""

DOWNGRADE = """
ALTER TABLE {s}.notification_deliveries DROP COLUMN given_back;
DROP TABLE {s}.shutdowns;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

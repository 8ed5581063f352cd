"""Workers that were told to stop, whose ended claims burn nothing; and how many claims of a delivery were given back."""

from alembic import context, op

revision = "0005"
down_revision = "0002"
branch_labels = None
depends_on = None

# `given_back` is null where it was not counted from the first claim on.
UPGRADE = """
CREATE TABLE {s}.shutdowns (
    worker text PRIMARY KEY,
    asked_at timestamptz NOT NULL
);
ALTER TABLE {s}.notification_deliveries ADD COLUMN given_back integer;
ALTER TABLE {s}.notification_deliveries
    ADD CONSTRAINT notification_deliveries_given_back_check CHECK (given_back BETWEEN 0 AND claim_number) NOT VALID;
ALTER TABLE {s}.notification_deliveries VALIDATE CONSTRAINT notification_deliveries_given_back_check;
"""

DOWNGRADE = """
ALTER TABLE {s}.notification_deliveries DROP COLUMN given_back;
DROP TABLE {s}.shutdowns;
"""


def _run(script: str) -> None:
    schema = context.config.attributes["schema"]
    for statement in script.split(";\n"):
        if statement.strip():
            op.execute(statement.replace("{s}", schema))


def upgrade() -> None:
    _run(UPGRADE)


def downgrade() -> None:
    _run(DOWNGRADE)

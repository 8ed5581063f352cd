"""What the scan must know of a live reminder by itself: where it goes, and when waiting any longer is pointless."""

from alembic import context, op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

UPGRADE = """
ALTER TABLE {s}.due ADD COLUMN destination_id uuid;
ALTER TABLE {s}.due ADD COLUMN give_up_at timestamptz;
CREATE INDEX due_give_up ON {s}.due (give_up_at) WHERE give_up_at IS NOT NULL;
"""

DOWNGRADE = """
DROP INDEX {s}.due_give_up;
ALTER TABLE {s}.due DROP COLUMN give_up_at;
ALTER TABLE {s}.due DROP COLUMN destination_id;
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

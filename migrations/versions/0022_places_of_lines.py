"""Where in which file a settled line was read, so that a second one of its id in the same file is noticed."""

from reminders.ledger.migration_steps import run

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

# `read_from` is the first half of the file's digest, `place` the page's number times 2^32 and the line within the page. Both are
# null of lines that were read before there were these columns, until they are read again.
UPGRADE = """
ALTER TABLE {s}.settlement_lines ADD COLUMN IF NOT EXISTS read_from uuid, ADD COLUMN IF NOT EXISTS place bigint;
"""

DOWNGRADE = """
ALTER TABLE {s}.settlement_lines DROP COLUMN place, DROP COLUMN read_from;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

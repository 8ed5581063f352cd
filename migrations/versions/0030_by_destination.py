"""Who has a destination is found by an index: the purge, an erasure and the look-ups ask for it."""

from reminders.ledger.migration_steps import build_index, run

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

DOWNGRADE = """
DROP INDEX {s}.series_destination;
DROP INDEX {s}.reminders_destination;
"""


def upgrade() -> None:
    build_index("reminders_destination", "reminders", "(destination_id)")
    build_index("series_destination", "series", "(destination_id)")


def downgrade() -> None:
    run(DOWNGRADE)

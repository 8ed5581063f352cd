"""Revisions: how new what messages about single events have told of each is, so that an older one changes nothing."""

from reminders.ledger.migration_steps import run

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# One row for each component that was told of (RFC 5546 section 2.1.5): an event as a whole, whose `recurrence_id` is empty, one
# of its turns, or with `and_future` all from that turn on. `uid_key` is a hash of its UID. The greatest `sequence` counts, of
# equal ones the latest `stamp` (DTSTAMP, empty where it is not known), and of equal ones that which cancels.
UPGRADE = """
CREATE TABLE IF NOT EXISTS {s}.calendar_revisions (
    calendar_id uuid NOT NULL REFERENCES {s}.calendars (id) ON DELETE CASCADE,
    uid_key bytea NOT NULL,
    recurrence_id text NOT NULL,
    and_future boolean NOT NULL,
    sequence integer NOT NULL,
    stamp text NOT NULL,
    cancelled boolean NOT NULL,
    PRIMARY KEY (calendar_id, uid_key, recurrence_id, and_future)
);
"""

DOWNGRADE = """
DROP TABLE {s}.calendar_revisions;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

"""Calendars: what an import of a calendar made of it, so that the next import changes only what has changed."""

from reminders.ledger.migration_steps import run

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

# A calendar's id is a hash of whose it is and of its name; `import_id` is its newest import, and an older one that still
# runs gives way. Of an entry, `entry_key` is the identity that its alarm and turn have, and `uid_key` a hash of its event's
# UID; `content_hash` is the request that its reminder now stands for. `ended`: an import cancelled the reminder. An entry outlives its reminder, lest what a person has cancelled
# comes back once it is purged; the next import after its time is over removes it.
UPGRADE = """
CREATE TABLE IF NOT EXISTS {s}.calendars (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    channel text NOT NULL,
    import_id uuid NOT NULL,
    imported_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS {s}.calendar_entries (
    calendar_id uuid NOT NULL REFERENCES {s}.calendars (id) ON DELETE CASCADE,
    entry_key bytea NOT NULL,
    uid_key bytea NOT NULL,
    recurrence_id text NOT NULL,
    sequence integer NOT NULL,
    content_hash bytea NOT NULL,
    due_at timestamptz NOT NULL,
    reminder_id uuid NOT NULL,
    ended boolean NOT NULL DEFAULT false,
    PRIMARY KEY (calendar_id, entry_key)
);
"""

DOWNGRADE = """
DROP TABLE {s}.calendar_entries;
DROP TABLE {s}.calendars;
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

"""Functions that write and change reminders, for Python and for SQL alike; which channels and zones there are."""

from reminders.ledger.migration_steps import run, run_folder

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# `known_channels` and `known_zones` are filled by `reminders migrate` and by every worker that starts.
UPGRADE = """
CREATE TABLE {s}.known_channels (
    name text PRIMARY KEY CHECK (name <> ''),
    deduplicates boolean NOT NULL
);
CREATE TABLE {s}.known_zones (
    name text PRIMARY KEY CHECK (name <> '')
);
CREATE TYPE {s}.scheduled AS (id uuid, delivery_key text, due_at timestamptz, status text, version integer, created boolean);
CREATE TYPE {s}.cancelled_many AS (cancelled uuid[], requested uuid[], maybe_sent uuid[], too_late uuid[], more boolean);
CREATE TYPE {s}.moved AS (kind text, field text, said text, delivery_key text, due_at timestamptz, status text, version integer);
"""

FUNCTIONS = """snooze, reschedule, moved_or_raised, move_row, not_moved, cancel_where, cancel, cancel_rows, cancel_answers, lock_rows,
schedule, scheduled_before, schedule_rows, missing, checked_channel, checked_zone, checked_expiry, checked_instant, checked_text,
canonical_data, canonical_json, canonical_number, refuse, uuid7, destination_id, delivery_key, instant_text, digest"""

DOWNGRADE = f"""
DROP FUNCTION {", ".join(f"{{s}}.{name.strip()}" for name in FUNCTIONS.split(","))};
DROP TYPE {{s}}.moved, {{s}}.cancelled_many, {{s}}.scheduled;
DROP TABLE {{s}}.known_zones, {{s}}.known_channels;
"""


def upgrade() -> None:
    run(UPGRADE)
    run_folder("0013")


def downgrade() -> None:
    run(DOWNGRADE)

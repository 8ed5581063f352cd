"""What the scan must know of a live reminder by itself: where it goes, and when waiting any longer is pointless."""

from reminders.ledger.migration_steps import build_index, fill_in, run

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

UPGRADE = """
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS destination_id uuid;
ALTER TABLE {s}.due ADD COLUMN IF NOT EXISTS give_up_at timestamptz;
"""

# Both rows are locked, and read as they are under the lock: a `reschedule` that commits in between moves the end as well.
# A row that is `sending` keeps its claim's end.
FILL = """
WITH picked AS MATERIALIZED (
    SELECT d.id, r.destination_id, r.expires_at
    FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
    WHERE d.destination_id IS NULL AND d.id > CAST(:after AS uuid)
    ORDER BY d.id LIMIT :batch
    FOR NO KEY UPDATE OF d SKIP LOCKED FOR SHARE OF r SKIP LOCKED
), filled AS (
    UPDATE {s}.due d
    SET destination_id = picked.destination_id, give_up_at = picked.expires_at,
        wake_at = CASE WHEN d.status = 'sending' THEN d.wake_at ELSE LEAST(d.wake_at, picked.expires_at) END
    FROM picked WHERE d.id = picked.id
)
SELECT id::text FROM picked ORDER BY id DESC LIMIT 1
"""

DOWNGRADE = """
DROP INDEX {s}.due_give_up;
ALTER TABLE {s}.due DROP COLUMN give_up_at;
ALTER TABLE {s}.due DROP COLUMN destination_id;
"""


def upgrade() -> None:
    run(UPGRADE)
    fill_in("due", "destination_id IS NULL", FILL)
    build_index("due_give_up", "due", "(give_up_at) WHERE give_up_at IS NOT NULL")


def downgrade() -> None:
    run(DOWNGRADE)

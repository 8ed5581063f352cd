"""Notices of dead letters, of a beat that is silent and of settlement files that are refused; and how often each came."""

from reminders.ledger.migration_steps import build_index, run

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

# `times` and `last_at` count what came again while nobody had seen the notice; `last_at` is null while it came once. A dead
# letter bears the notice that tells of it; those that are open when this is run are told of once. What is about the
# installation has no tenant: the release before shows blanks for it.
UPGRADE = """
SET LOCAL client_min_messages = warning;
-- squawk-ignore ban-drop-not-null
ALTER TABLE {s}.notices ALTER COLUMN tenant_id DROP NOT NULL;
-- squawk-ignore ban-drop-not-null
ALTER TABLE {s}.notices ALTER COLUMN channel DROP NOT NULL;
ALTER TABLE {s}.notices ADD COLUMN IF NOT EXISTS times integer NOT NULL DEFAULT 1;
ALTER TABLE {s}.notices ADD COLUMN IF NOT EXISTS last_at timestamptz;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notices DROP CONSTRAINT IF EXISTS notices_kind_check;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_kind_check CHECK (kind IN ('destination_gone', 'destination_failing', 'channel_held', 'breaker_opened', 'dead_letter', 'beat_silent', 'reconciliation_refused')) NOT VALID;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notices DROP CONSTRAINT IF EXISTS notices_check;
-- squawk-ignore ban-drop-constraint
ALTER TABLE {s}.notices DROP CONSTRAINT IF EXISTS notices_about;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_about CHECK ((kind IN ('destination_gone', 'destination_failing', 'breaker_opened')) = (destination_id IS NOT NULL) AND (kind IN ('beat_silent', 'reconciliation_refused')) = (tenant_id IS NULL) AND (tenant_id IS NULL) = (channel IS NULL)) NOT VALID;
ALTER TABLE {s}.dead_letters ADD COLUMN IF NOT EXISTS notice_id uuid;
"""

VALIDATE = """
ALTER TABLE {s}.notices VALIDATE CONSTRAINT notices_kind_check;
ALTER TABLE {s}.notices VALIDATE CONSTRAINT notices_about;
"""

DOWNGRADE = """
DROP INDEX {s}.dead_letters_untold;
DROP INDEX {s}.notices_of_beat;
ALTER TABLE {s}.dead_letters DROP COLUMN notice_id;
DELETE FROM {s}.notices WHERE kind IN ('dead_letter', 'beat_silent', 'reconciliation_refused');
ALTER TABLE {s}.notices DROP CONSTRAINT notices_about;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_check CHECK ((kind = 'channel_held') = (destination_id IS NULL)) NOT VALID;
ALTER TABLE {s}.notices DROP CONSTRAINT notices_kind_check;
ALTER TABLE {s}.notices ADD CONSTRAINT notices_kind_check CHECK (kind IN ('destination_gone', 'destination_failing', 'channel_held', 'breaker_opened')) NOT VALID;
ALTER TABLE {s}.notices DROP COLUMN last_at;
ALTER TABLE {s}.notices DROP COLUMN times;
ALTER TABLE {s}.notices ALTER COLUMN channel SET NOT NULL;
ALTER TABLE {s}.notices ALTER COLUMN tenant_id SET NOT NULL;
"""


def upgrade() -> None:
    run(UPGRADE)
    build_index("dead_letters_untold", "dead_letters", "(opened_at) WHERE state = 'open' AND notice_id IS NULL")
    build_index("notices_of_beat", "notices", "(noticed_at) WHERE kind = 'beat_silent'")
    run(VALIDATE)


def downgrade() -> None:
    run(DOWNGRADE)

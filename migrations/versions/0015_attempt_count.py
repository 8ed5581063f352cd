"""The view's `attempt_count` without claims that were given back: no call was made under them."""

from reminders.ledger.migration_steps import run

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

VIEW = """
CREATE OR REPLACE VIEW {{s}}.reminders_v1 AS
SELECT r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.due_at, r.zone, r.expires_at,
       COALESCE(d.status, r.status) AS status, r.version, r.delivery_key, COALESCE({count}, 0) AS attempt_count,
       r.last_outcome, d.wake_at, r.cancel_requested_at, n.provider_reference, n.uncertain_since, r.created_at, r.finished_at,
       d.hold_id, d.held_at, z.reason AS hold_reason, r.suppressed_by, r.suppressed_reason,
       CASE WHEN d.status = 'pending' AND d.quiet_until = d.wake_at THEN d.quiet_until END AS quiet_until
FROM {{s}}.reminders r
LEFT JOIN {{s}}.due d ON d.id = r.id
LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {{s}}.pauses z ON z.id = d.hold_id;
"""


def upgrade() -> None:
    run(VIEW.format(count="n.claim_number - COALESCE(n.given_back, 0)"))


def downgrade() -> None:
    run(VIEW.format(count="n.claim_number"))

"""Templates: immutable versions, which of them is active, and the one that a delivery has pinned."""

from reminders.ledger.migration_steps import run

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# An empty `tenant_id` means all tenants, an empty `locale` every locale without a template of its own. What is active
# is the claim's look-up, by its key; it is no column of a version, since nothing of a version ever changes.
UPGRADE = """
CREATE TABLE {s}.templates (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL,
    kind text NOT NULL CHECK (kind <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    locale text NOT NULL CHECK (locale = lower(locale)),
    version integer NOT NULL CHECK (version >= 1),
    parts jsonb NOT NULL CHECK (jsonb_typeof(parts) = 'object'),
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    host text NOT NULL,
    UNIQUE (tenant_id, kind, channel, locale, version),
    UNIQUE (id, tenant_id, kind, channel, locale)
);

CREATE FUNCTION {s}.refuse_template_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'a version of a template never changes; add another version'; END $$;
CREATE TRIGGER templates_never_change
    BEFORE UPDATE OF id, tenant_id, kind, channel, locale, version, parts, actor, host ON {s}.templates
    FOR EACH ROW EXECUTE FUNCTION {s}.refuse_template_change();

CREATE TABLE {s}.active_templates (
    tenant_id text NOT NULL,
    kind text NOT NULL,
    channel text NOT NULL,
    locale text NOT NULL,
    template_id uuid NOT NULL,
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    host text NOT NULL,
    PRIMARY KEY (tenant_id, kind, channel, locale),
    FOREIGN KEY (template_id, tenant_id, kind, channel, locale) REFERENCES {s}.templates (id, tenant_id, kind, channel, locale)
);

ALTER TABLE {s}.notification_deliveries ADD COLUMN template_id uuid;
"""

# The older release knows no channel that has templates.
DOWNGRADE = """
ALTER TABLE {s}.notification_deliveries DROP COLUMN template_id;
DROP TABLE {s}.active_templates;
DROP TABLE {s}.templates;
DROP FUNCTION {s}.refuse_template_change();
"""


def upgrade() -> None:
    run(UPGRADE)


def downgrade() -> None:
    run(DOWNGRADE)

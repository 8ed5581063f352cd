"""The ledger's tables, to be emptied between tests."""

TABLES = (
    "ticks", "dead_letters", "delivery_attempts", "notification_deliveries", "due", "reminders", "destinations",
    "channel_holds", "tenant_policies", "keys_seen", "purges", "shutdowns", "pauses", "secrets", "secret_changes",
    "active_templates", "templates",
    "allowed_places", "notices",
    "recipients", "preferences", "suppressions", "kind_policies",
    "series", "series_skips", "lateness_policies",
    "calendars", "calendar_entries",
    "new_tenants", "cohort_members", "tenant_changes", "shadow_deliveries",
)  # fmt: skip

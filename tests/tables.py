"""The ledger's tables, and how they are emptied between tests."""

from typing import Any

TABLES = (
    "ticks", "dead_letters", "delivery_attempts", "notification_deliveries", "due", "reminders", "destinations",
    "channel_holds", "tenant_policies", "keys_seen", "purges", "shutdowns", "pauses", "secrets", "secret_changes",
    "active_templates", "templates",
    "allowed_places", "notices",
    "recipients", "preferences", "suppressions", "kind_policies",
    "series", "series_skips", "lateness_policies",
    "calendars", "calendar_entries", "calendar_revisions",
    "new_tenants", "cohort_members", "tenant_changes", "shadow_deliveries",
    "reconciliation_file_pages", "reconciliation_files",
    "settlement_lines", "reconciliation_rejects", "reconciliation_run_sums", "reconciliation_run_payouts",
    "reconciliation_run_groups", "reconciliation_run_decisions", "reconciliation_decisions", "reconciliation_runs", "settlement_sources",
    "rate_tails", "rates", "totals", "slo_days", "counted_up_to", "dispatchers",
    "erasures", "erasure_key", "retention_policies",
    "quarantines",
)  # fmt: skip
_LARGE = """SELECT count(*) FROM pg_class
WHERE relnamespace = 'reminders'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 1048576"""


def empty(cursor: Any) -> None:
    """Empty the ledger row by row, unless many rows have been there: TRUNCATE costs every test 50 ms and new files."""
    cursor.execute(_LARGE)
    if cursor.fetchone() == (0,):
        cursor.execute("; ".join(f"DELETE FROM reminders.{table}" for table in TABLES))
    else:
        cursor.execute(f"TRUNCATE {', '.join(f'reminders.{table}' for table in TABLES)}")

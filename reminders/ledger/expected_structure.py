"""What the migrations make besides tables: indexes by table, views and functions. Without an index a look is slow, or what must be
there once is there twice.
"""

from __future__ import annotations

from collections.abc import Mapping

UNIQUE: Mapping[str, tuple[str, ...]] = {
    "active_templates": ("active_templates_pkey",),
    "allowed_places": ("allowed_places_pkey", "allowed_places_standing"),
    "calendar_entries": ("calendar_entries_pkey",),
    "calendar_revisions": ("calendar_revisions_pkey",),
    "calendars": ("calendars_pkey",),
    "channel_holds": ("channel_holds_pkey",),
    "cohort_members": ("cohort_members_pkey",),
    "counted_up_to": ("counted_up_to_pkey",),
    "dead_letters": ("dead_letters_one_open", "dead_letters_pkey"),
    "delivery_attempts": ("delivery_attempts_pkey",),
    "destinations": ("destinations_pkey",),
    "dispatchers": ("dispatchers_pkey",),
    "due": ("due_pkey",),
    "erasure_key": ("erasure_key_pkey",),
    "erasures": ("erasures_pkey", "erasures_under_way"),
    "keys_seen": ("keys_seen_pkey",),
    "kind_policies": ("kind_policies_pkey",),
    "known_channels": ("known_channels_pkey",),
    "known_zones": ("known_zones_pkey",),
    "lateness_policies": ("lateness_policies_pkey",),
    "new_tenants": ("new_tenants_pkey",),
    "notices": ("notices_open", "notices_pkey"),
    "notification_deliveries": ("notification_deliveries_pkey",),
    "pauses": ("pauses_pkey",),
    "preferences": ("preferences_pkey", "preferences_standing"),
    "purges": ("purges_pkey",),
    "quarantines": ("quarantines_pkey", "quarantines_unfinished"),
    "rate_tails": ("rate_tails_pkey",),
    "rates": ("rates_channel", "rates_destination", "rates_pkey", "rates_tenant"),
    "recipients": ("recipients_pkey",),
    "reconciliation_decisions": ("reconciliation_decisions_pkey",),
    "reconciliation_file_pages": ("reconciliation_file_pages_pkey",),
    "reconciliation_files": ("reconciliation_files_night", "reconciliation_files_pkey"),
    "reconciliation_rejects": ("reconciliation_rejects_pkey",),
    "reconciliation_run_decisions": ("reconciliation_run_decisions_pkey",),
    "reconciliation_run_groups": ("reconciliation_run_groups_pkey",),
    "reconciliation_run_payouts": ("reconciliation_run_payouts_pkey",),
    "reconciliation_run_sums": ("reconciliation_run_sums_pkey",),
    "reconciliation_runs": ("reconciliation_runs_once", "reconciliation_runs_pkey"),
    "reminders": ("reminders_identity_key", "reminders_pkey"),
    "retention_policies": ("retention_policies_pkey",),
    "schema_version": ("schema_version_pkc",),
    "secret_changes": ("secret_changes_pkey",),
    "secrets": ("secrets_one_newest", "secrets_pkey"),
    "series": ("series_identity_key", "series_pkey"),
    "series_skips": ("series_skips_pkey",),
    "settlement_lines": ("settlement_lines_pkey",),
    "settlement_sources": ("settlement_sources_pkey",),
    "shadow_deliveries": ("shadow_deliveries_pkey",),
    "shutdowns": ("shutdowns_pkey",),
    "slo_days": ("slo_days_pkey",),
    "suppressions": ("suppressions_of_destination", "suppressions_of_user", "suppressions_pkey"),
    "templates": (
        "templates_id_tenant_id_kind_channel_locale_key",
        "templates_pkey",
        "templates_tenant_id_kind_channel_locale_version_key",
    ),
    "tenant_changes": ("tenant_changes_pkey",),
    "tenant_policies": ("tenant_policies_pkey",),
    "ticks": ("ticks_pkey",),
    "totals": ("totals_pkey",),
}
"""Those that let no row in twice."""

ORDINARY: Mapping[str, tuple[str, ...]] = {
    "cohort_members": ("cohort_members_tenant",),
    "dead_letters": ("dead_letters_not_sent", "dead_letters_open", "dead_letters_reminder", "dead_letters_untold"),
    "delivery_attempts": ("delivery_attempts_recorded",),
    "destinations": ("destinations_held", "destinations_limited"),
    "due": (
        "due_give_up",
        "due_held",
        "due_held_since",
        "due_in_flight",
        "due_lane_wake",
        "due_let_go",
        "due_parked",
        "due_quiet",
        "due_rated_by",
        "due_turns",
        "due_wake",
    ),
    "keys_seen": ("keys_seen_reminder",),
    "notices": ("notices_by_time", "notices_of_beat"),
    "notification_deliveries": ("notification_deliveries_reminder", "notification_deliveries_uncertain"),
    "pauses": ("pauses_active", "pauses_drains"),
    "purges": ("purges_unsettled",),
    "rates": ("rates_active",),
    "reconciliation_decisions": (
        "reconciliation_decisions_line",
        "reconciliation_decisions_missing",
        "reconciliation_decisions_order",
    ),
    "reconciliation_files": ("reconciliation_files_created", "reconciliation_files_under_way"),
    "reconciliation_runs": ("reconciliation_runs_started",),
    "reminders": ("reminders_destination", "reminders_reference", "reminders_series", "reminders_user"),
    "secrets": ("secrets_of_place",),
    "series": ("series_destination", "series_plan", "series_user"),
    "settlement_lines": (
        "settlement_lines_age",
        "settlement_lines_charge",
        "settlement_lines_group",
        "settlement_lines_payout",
    ),
    "shadow_deliveries": ("shadow_deliveries_of", "shadow_deliveries_reminder"),
    "tenant_changes": ("tenant_changes_of",),
    "tenant_policies": ("tenant_policies_handed_over", "tenant_policies_owners"),
}
"""The others."""

VIEWS = frozenset({"reminders_v1"})

FUNCTIONS = frozenset({"cancel", "cancel_answers", "cancel_rows", "cancel_where", "canonical_data", "canonical_json", "canonical_number", "checked_channel", "checked_expiry", "checked_instant", "checked_text", "checked_zone", "delivery_key", "destination_id", "digest", "erased_hash", "erased_user", "instant_text", "lock_rows", "missing", "move_row", "moved_or_raised", "not_moved", "refuse", "refuse_template_change", "reschedule", "schedule", "schedule_rows", "scheduled_before", "snooze", "uuid7"})  # fmt: skip
"""Those that applications call, and those that these call."""

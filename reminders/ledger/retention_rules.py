"""What deletes the rows of each table of the ledger, or why they stay. A test looks for tables that none of these names.

A row that is over has been so since some instant (`since`), which is null while it is not; it goes once it has been over for
as long as its tenant has such things kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

About = Literal["reminders", "evidence"]
"""How long something is kept: as reminders are, or as what people have said and done."""


@dataclass(frozen=True, slots=True)
class Goes:
    """Rows that go one by one, found by walking the table's primary key.

    SQL over a row `x`: since when it is over, its tenant (none: nobody's), and why it stays all the same, which may read other
    tables. `blank` is what is set instead of deleting the row. `sooner` says which rows of evidence go as reminders do.
    """

    key: tuple[tuple[str, str], ...]
    about: About
    since: str
    tenant: str | None = "x.tenant_id"
    unless: str = "false"
    blank: str | None = None
    sooner: str | None = None


_ID = (("id", "uuid"),)
_STILL_USED = "EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.destination_id = x.id)"

GOES: dict[str, Goes] = {
    "channel_holds": Goes((("tenant_id", "text"), ("channel", "text")), "reminders", "x.hold_until"),
    "secrets": Goes(_ID, "reminders", "x.retires_at"),
    "series_skips": Goes(
        (("series_id", "uuid"), ("recurrence_id", "text")),
        "reminders",
        # After a change of zone the planner looks back over a day and more.
        "GREATEST(x.due_at, x.skipped_at) + interval '2 days'",
        tenant="(SELECT s.tenant_id FROM {s}.series s WHERE s.id = x.series_id)",
    ),
    # The row stays: the same series scheduled again is found, and begins nothing.
    "series": Goes(
        _ID,
        "reminders",
        "CASE WHEN x.status IN ('ended', 'cancelled') AND x.erased_at IS NULL THEN x.changed_at END",
        unless="EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.series_id = x.id)",
        blank="""user_id = 'purged', destination = '', destination_id = '00000000-0000-8000-8000-000000000000', reference = NULL,
              slot = '', data = '{}', request_hash = {s}.erased_hash(), start_wall = '1970-01-01T00:00:00', rule = NULL,
              extra = '{}', left_out = '{}', skipped = '{}', zone = 'UTC', planned_zone = 'UTC', follows_user = false,
              status = 'cancelled', erased_at = clock_timestamp()""",
    ),
    # Calls that failed have left an address here, which nobody but its reminders knows: it goes with the last of them. What an
    # operator has set stands until it is set otherwise; that one enabled it is evidence.
    "destinations": Goes(
        _ID,
        "evidence",
        """CASE WHEN x.deduplicates IS NULL AND x.secret_mark IS NULL AND NOT (x.disabled_by_operator AND x.disabled_at IS NOT NULL)
           THEN GREATEST(x.created_at, x.disabled_at, x.enabled_at, x.failing_since, x.timed_out_at, x.breaker_opened_at) END""",
        unless=f"""COALESCE(x.hold_until > COALESCE(:now, clock_timestamp()), false) OR {_STILL_USED}
                   OR EXISTS (SELECT 1 FROM {{s}}.series s WHERE s.destination_id = x.id)""",
        sooner="x.enabled_at IS NULL",
    ),
    "notices": Goes(
        _ID,
        "reminders",
        "CASE WHEN x.destination_id IS NULL THEN x.seen_at ELSE COALESCE(x.seen_at, x.last_at, x.noticed_at) END",
        unless="x.seen_at IS NULL AND EXISTS (SELECT 1 FROM {s}.destinations d WHERE d.id = x.destination_id)",
    ),
    "calendar_entries": Goes(
        (("calendar_id", "uuid"), ("entry_key", "bytea")),
        "reminders",
        "x.due_at",
        tenant="(SELECT c.tenant_id FROM {s}.calendars c WHERE c.id = x.calendar_id)",
        unless="EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.id = x.reminder_id)",
    ),
    "calendars": Goes(
        _ID,
        "reminders",
        "x.imported_at",
        unless="EXISTS (SELECT 1 FROM {s}.calendar_entries e WHERE e.calendar_id = x.id)",
    ),
    "rate_tails": Goes((("rate_id", "uuid"), ("tenant_id", "text")), "reminders", "x.next_at"),
    "shutdowns": Goes((("worker", "text"),), "reminders", "x.asked_at", tenant=None),
    "pauses": Goes(
        _ID,
        "evidence",
        "CASE WHEN x.released_at IS NOT NULL THEN GREATEST(x.released_at, x.ended_at) END",
        unless="""EXISTS (SELECT 1 FROM {s}.due d WHERE d.hold_id = x.id) OR EXISTS (SELECT 1 FROM {s}.due d WHERE d.let_go_by = x.id)
                  OR EXISTS (SELECT 1 FROM {s}.due d WHERE d.rated_by = x.id AND d.status = 'held')""",
    ),
    "rates": Goes(
        _ID,
        "evidence",
        "x.removed_at",
        unless="""EXISTS (SELECT 1 FROM {s}.rate_tails t WHERE t.rate_id = x.id)
                  OR EXISTS (SELECT 1 FROM {s}.due d WHERE d.rate_id = x.id AND d.status = 'pending' AND d.turn_at = d.wake_at)""",
    ),
    "tenant_changes": Goes(_ID, "evidence", "x.changed_at"),
    "secret_changes": Goes(
        _ID,
        "evidence",
        "x.changed_at",
        unless="""EXISTS (SELECT 1 FROM {s}.destinations d WHERE d.secret_mark = x.id)
                  OR EXISTS (SELECT 1 FROM {s}.tenant_policies p WHERE p.secret_mark = x.id)""",
    ),
    "allowed_places": Goes(_ID, "evidence", "x.ended_at"),
    "preferences": Goes(_ID, "evidence", "x.ended_at"),
    "suppressions": Goes(_ID, "evidence", "x.lifted_at"),
    "recipients": Goes(
        (("tenant_id", "text"), ("user_id", "text")),
        "evidence",
        "x.changed_at",
        unless="""EXISTS (SELECT 1 FROM {s}.reminders r WHERE r.tenant_id = x.tenant_id AND r.user_id = x.user_id)
                  OR EXISTS (SELECT 1 FROM {s}.series s WHERE s.tenant_id = x.tenant_id AND s.user_id = x.user_id)""",
    ),
    "templates": Goes(
        _ID,
        "evidence",
        "x.added_at",
        tenant="NULLIF(x.tenant_id, '')",
        unless="""EXISTS (SELECT 1 FROM {s}.active_templates a WHERE a.template_id = x.id)
                  OR EXISTS (SELECT 1 FROM {s}.notification_deliveries n WHERE n.template_id = x.id)
                  OR EXISTS (SELECT 1 FROM {s}.shadow_deliveries d WHERE d.template_id = x.id)""",
    ),
    "erasures": Goes(_ID, "evidence", "x.finished_at"),
    "purges": Goes(_ID, "evidence", "x.settled_at", tenant=None),
    "quarantines": Goes(_ID, "evidence", "x.ended_at", tenant=None),
    "dispatchers": Goes((("name", "text"),), "reminders", "x.seen_at", tenant=None),
}
"""Tables of which rows go by a date of their own, in the order in which one makes room for the next."""

WITH_OTHERS: dict[str, str] = {
    "reminders": "the purge: marked, and deleted a pass later",
    "due": "its reminder's end",
    "notification_deliveries": "its reminder",
    "delivery_attempts": "its reminder; and a month that is over and empty is dropped",
    "dead_letters": "its reminder, which stays while it is open or lately closed",
    "shadow_deliveries": "its reminder",
    "calendar_revisions": "its calendar",
    "reconciliation_files": "REMINDERS_RETENTION after it was last touched",
    "reconciliation_file_pages": "its file",
    "settlement_lines": "REMINDERS_RECONCILE_KEEP, with all of its order",
    "reconciliation_decisions": "its lines",
    "reconciliation_runs": "REMINDERS_RECONCILE_KEEP",
    "reconciliation_rejects": "its run",
    "reconciliation_run_sums": "its run",
    "reconciliation_run_payouts": "its run",
    "reconciliation_run_groups": "its run",
    "reconciliation_run_decisions": "its run",
    "slo_days": "400 days after its day, when attempts are counted",
}
"""Tables whose rows go with something else, and with what."""

STAYS: dict[str, str] = {
    "keys_seen": "so that nothing purged is ever made again: hashes, ids and times, nothing personal",
    "erasure_key": "so that erased users' refusals are found: one row",
    "tenant_policies": "settings of a tenant, which stand until they are set otherwise",
    "kind_policies": "the same",
    "lateness_policies": "the same",
    "retention_policies": "the same",
    "new_tenants": "the same, of the installation: one row",
    "cohort_members": "the same; removed by `reminders tenant cohort`",
    "active_templates": "which version is active, until another one is",
    "known_channels": "names that workers know; no tenant's",
    "known_zones": "the same",
    "ticks": "one row for each name of a process line",
    "totals": "a few numbers for each channel; nobody's",
    "counted_up_to": "one row",
    "settlement_sources": "one row for each source",
    "schema_version": "the migrations' own",
}
"""Tables whose rows stay, and why."""

"""Everything the ledger knows about one reminder, seen at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.domain.template import template_name
from reminders.ledger.caller import fetch
from reminders.ledger.consent_rules import SUPPRESSED_BY, reason_of
from reminders.ledger.database import Database
from reminders.ledger.giving_back import GIVEN_BACK
from reminders.ledger.rate_rules import WAITS
from reminders.ledger.reading import Attempt, Reminder, attempts, get
from reminders.ledger.statement import Statement

STANDING = Statement(
    "history_standing",
    f"""
WITH consent AS (SELECT {SUPPRESSED_BY} AS refused_by FROM {{s}}.reminders r WHERE r.id = :id)
SELECT clock_timestamp(), r.destination_id::text, r.cancel_requested_at, d.route, n.status, n.claim_number, n.claimed_at, n.claimed_until,
       n.worker, n.on_unknown, n.uncertain_since, n.confirmed_late_at, n.provider_reference,
       GREATEST(p.hold_until, c.hold_until), CASE WHEN p.hold_until > c.hold_until THEN p.hold_reason ELSE COALESCE(c.hold_reason, p.hold_reason) END,
       d.held_at, z.id::text, z.reason, z.actor, z.ended_at, z.by_mode, n.template_id::text, v.tenant_id, v.locale, v.version,
       CASE WHEN d.status = 'pending' AND d.quiet_until = d.wake_at THEN d.quiet_until END, r.suppressed_by::text, r.suppressed_reason,
       CASE WHEN r.status = 'live' THEN {reason_of("(SELECT refused_by FROM consent)")} END,
       CASE WHEN {WAITS} THEN concat_ws(' ', 'cap', x.id, 'of', COALESCE('tenant ' || x.tenant_id, 'channel ' || x.channel, 'destination ' || x.destination_id)) END,
       CASE WHEN {WAITS} THEN d.waits_since END, z.stopped_at,
       n.status = 'retrying' AND {GIVEN_BACK} AND NOT EXISTS (
           SELECT 1 FROM {{s}}.delivery_attempts a
           WHERE a.delivery_key = n.delivery_key AND a.claim_number = n.claim_number AND a.claimed_at = n.claimed_at)
FROM {{s}}.reminders r
LEFT JOIN {{s}}.destinations p ON p.id = r.destination_id
LEFT JOIN {{s}}.channel_holds c ON c.tenant_id = r.tenant_id AND c.channel = r.channel
LEFT JOIN {{s}}.due d ON d.id = r.id
LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
LEFT JOIN {{s}}.pauses z ON z.id = d.hold_id
LEFT JOIN {{s}}.templates v ON v.id = n.template_id
LEFT JOIN {{s}}.rates x ON x.id = d.rate_id
WHERE r.id = :id
""",
    {"id": "uuid"},
)

LETTERS = Statement(
    "history_letters",
    """
SELECT id::text, kind, state, error_class, reason, opened_at, closed_at, actor, action_reason
FROM {s}.dead_letters WHERE reminder_id = :id ORDER BY opened_at, id
""",
    {"id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the public view leaves out.

    The delivery's columns are null before the first claim under the present key, those of the hold unless it is held.
    """

    destination_id: UUID
    cancel_requested_at: datetime | None
    route: str | None
    delivery_status: str | None
    claim_number: int | None
    claimed_at: datetime | None
    claimed_until: datetime | None
    worker: str | None
    on_unknown: str | None
    uncertain_since: datetime | None
    confirmed_late_at: datetime | None
    provider_reference: str | None
    held_until: datetime | None
    """Until when its destination or its tenant's channel is, or last was, held; None if neither ever was."""
    hold_reason: str | None
    held_at: datetime | None
    """Since when a pause holds it; null, as all of the pause, while none does."""
    pause_id: str | None
    pause_reason: str | None
    pause_actor: str | None
    pause_ended_at: datetime | None
    tenant_off: bool | None
    """Whether that pause is there because its tenant is off."""
    template_id: str | None
    """The version of a template that the first attempt pinned; null, as the rest of it, for channels without templates."""
    template_tenant: str | None
    template_locale: str | None
    template_version: int | None
    quiet_until: datetime | None
    """Until when it waits for the end of its user's quiet hours; None unless it does."""
    suppressed_by: str | None
    """The suppression or preference by which it ended as suppressed, and its words; None unless it did."""
    suppressed_reason: str | None
    refused_reason: str | None
    """Of a live one: why it would end as suppressed if it came due now; None if it would not."""
    waits_for: str | None
    """The cap for whose turn it waits, in words; None unless it does."""
    waits_since: datetime | None
    """Since when it has been due without a turn."""
    drain_stopped_at: datetime | None
    """When the drain was stopped that holds it; None unless one does and was."""
    given_back: bool | None
    """Whether the last worker that took it could not call, and gave it back."""

    def template_name(self, reminder: Reminder) -> str | None:
        """What the pinned version is called."""
        whose, locale, version = self.template_tenant, self.template_locale, self.template_version
        if whose is None or locale is None or version is None:
            return None
        return template_name(whose, reminder.kind, reminder.channel, locale, version)


@dataclass(frozen=True, slots=True)
class Letter:
    """One of the reminder's dead letters."""

    id: UUID
    kind: str
    state: str
    error_class: str
    reason: str
    opened_at: datetime
    closed_at: datetime | None
    actor: str | None
    action_reason: str | None


@dataclass(frozen=True, slots=True)
class History:
    """A reminder, where it stands, and what happened to it, oldest first. Instants are UTC, by the ledger's clock."""

    reminder: Reminder
    standing: Standing
    attempts: list[Attempt]
    letters: list[Letter]
    seen_at: datetime


def history(database: Database, reminder_id: UUID) -> History:
    """All of it from one snapshot. Raises `NotFound`."""
    schema, given = database.schema, str(reminder_id)
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reminder = get(connection, schema, reminder_id)
        seen_at, place, *columns = fetch(connection, schema, STANDING, id=given)[0]
        return History(
            reminder,
            Standing(UUID(place), *map(_utc, columns)),
            attempts(connection, schema, reminder_id),
            [Letter(UUID(row[0]), *map(_utc, row[1:])) for row in fetch(connection, schema, LETTERS, id=given)],
            _utc(seen_at),
        )


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value

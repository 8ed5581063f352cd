"""Cancelling and moving a reminder inside the caller's transaction.

Each first locks the row of `due`, as every other move does, and then looks again: while it waited for the lock the
row may have been claimed or finished, and a fresh statement sees that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from reminders.domain.errors import InvalidInput, Refused
from reminders.domain.identity import delivery_key, uuid7
from reminders.domain.request import checked_instant
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.purged import not_found
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.statement import Statement

CancelResult = Literal["cancelled", "requested", "maybe_sent", "too_late"]

LOCK = Statement(
    "change_lock",
    "SELECT status FROM {s}.due WHERE id = :id FOR NO KEY UPDATE",
    {"id": "uuid"},
)

STANDING = Statement(
    "change_standing",
    """
SELECT r.status, d.status, n.uncertain_since IS NOT NULL, n.confirmed_late_at IS NOT NULL, r.delivery_key, r.version,
       r.due_at, r.zone, r.identity_key, r.expires_at
FROM {s}.reminders r
LEFT JOIN {s}.due d ON d.id = r.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE r.id = :id
FOR NO KEY UPDATE OF r
""",
    {"id": "uuid"},
)

REQUEST_CANCEL_IF_SENDING = Statement(
    "request_cancel",
    """
WITH asked AS (
    UPDATE {s}.due SET cancel_requested_at = COALESCE(cancel_requested_at, clock_timestamp())
    WHERE id = :id AND status = 'sending' RETURNING id
)
UPDATE {s}.reminders r SET cancel_requested_at = COALESCE(r.cancel_requested_at, clock_timestamp())
FROM asked WHERE r.id = asked.id RETURNING 1
""",
    {"id": "uuid"},
)

CANCEL_IF_NOT_SENDING = Statement(
    "cancel",
    """
WITH gone AS (
    DELETE FROM {s}.due WHERE id = :id AND status <> 'sending'
), delivery AS (
    UPDATE {s}.notification_deliveries
    SET status = 'cancelled', finished_at = clock_timestamp(), letter_kind = NULL
    WHERE reminder_id = :id AND status IN ('retrying', 'dead')
), letter AS (
    UPDATE {s}.dead_letters
    SET state = 'discarded', closed_at = clock_timestamp(), actor = 'cancel', action_reason = 'the reminder was cancelled'
    WHERE reminder_id = :id AND state = 'open'
)
UPDATE {s}.reminders SET status = 'cancelled', finished_at = clock_timestamp()
WHERE id = :id AND status IN ('live', 'dead', 'expired')
  AND NOT EXISTS (SELECT 1 FROM {s}.due WHERE id = :id AND status = 'sending')
RETURNING 1
""",
    {"id": "uuid"},
)

# No redrive sends what somebody has asked to cancel.
NOTE_CANCEL_IF_DEAD = Statement(
    "note_cancel",
    """
UPDATE {s}.reminders SET cancel_requested_at = COALESCE(cancel_requested_at, clock_timestamp())
WHERE id = :id AND status = 'dead' RETURNING 1
""",
    {"id": "uuid"},
)

REVIEW_IF_UNCERTAIN = Statement(
    "cancel_uncertain",
    """
WITH gone AS (
    DELETE FROM {s}.due WHERE id = :id AND status <> 'sending' RETURNING id, delivery_key, attempts
), delivery AS (
    UPDATE {s}.notification_deliveries n
    SET status = 'unknown', finished_at = clock_timestamp(), letter_kind = 'unknown'
    FROM gone WHERE n.delivery_key = gone.delivery_key
), letter AS (
    INSERT INTO {s}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT :letter_id, gone.id, gone.delivery_key, 'unknown', 'cancelled_while_uncertain',
           'cancelled while the outcome of an earlier attempt is unknown', gone.attempts
    FROM gone
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
)
UPDATE {s}.reminders r
SET status = 'dead', last_outcome = 'unknown', finished_at = clock_timestamp(), cancel_requested_at = clock_timestamp()
FROM gone WHERE r.id = gone.id AND r.status = 'live'
RETURNING 1
""",
    {"id": "uuid", "letter_id": "uuid"},
)

MOVE_IF_NOT_SENDING = Statement(
    "reschedule",
    """
WITH superseded AS (
    UPDATE {s}.notification_deliveries
    SET status = 'superseded', finished_at = clock_timestamp(), letter_kind = NULL
    WHERE reminder_id = :id AND status IN ('retrying', 'dead', 'expired', 'cancelled', 'suppressed')
), letter AS (
    UPDATE {s}.dead_letters
    SET state = 'resolved', closed_at = clock_timestamp(), actor = 'reschedule', action_reason = 'the reminder was rescheduled'
    WHERE reminder_id = :id AND state = 'open'
), moved AS (
    UPDATE {s}.reminders
    SET due_at = :due_at, zone = COALESCE(:zone, zone), expires_at = :expires_at, version = version + 1,
        delivery_key = :new_key, status = 'live', finished_at = NULL, last_outcome = NULL, cancel_requested_at = NULL,
        moved_at = CASE WHEN series_id IS NOT NULL THEN clock_timestamp() END, withdrawn_at = NULL,
        suppressed_by = NULL, suppressed_reason = NULL
    WHERE id = :id AND version = :version
    RETURNING id, tenant_id, destination_id, expires_at
), woken AS (
    INSERT INTO {s}.due AS d (id, lane, destination_id, wake_at, give_up_at, status, delivery_key)
    SELECT id, tenant_id, destination_id, :due_at, expires_at, 'pending', :new_key FROM moved
    ON CONFLICT (id) DO UPDATE
    SET lane = EXCLUDED.lane, destination_id = EXCLUDED.destination_id, wake_at = EXCLUDED.wake_at, give_up_at = EXCLUDED.give_up_at, status = 'pending', delivery_key = EXCLUDED.delivery_key, route = 'deliver',
        lease_token = NULL, published_at = NULL, attempts = 0, alone_deaths = 0, hold_id = NULL, held_at = NULL, wait_left = NULL
    WHERE d.status <> 'sending'
)
SELECT 1 FROM moved
""",
    {"id": "uuid", "due_at": "timestamptz", "zone": "text", "expires_at": "timestamptz", "version": "integer", "new_key": "text"},
)  # fmt: skip

# What its series has withdrawn may come back; what a person has cancelled does not.
CANCEL_FOR_GOOD = Statement(
    "cancel_for_good",
    "UPDATE {s}.reminders SET withdrawn_at = NULL WHERE id = :id AND withdrawn_at IS NOT NULL RETURNING 1",
    {"id": "uuid"},
)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a reminder stands, with its rows locked. `live` is its status in `due`, if it has a row there."""

    status: str
    live: str | None
    uncertain: bool
    confirmed_late: bool
    delivery_key: str
    version: int
    due_at: datetime
    zone: str | None
    identity_key: bytes | memoryview
    expires_at: datetime | None


def cancel(connection: CallersConnection, schema: str, reminder_id: UUID) -> CancelResult:
    """Cancel in the caller's transaction; see `reminders.cancel` for what each answer means."""
    given = str(reminder_id)
    found = _lock(connection, schema, reminder_id)
    if found.status == "cancelled":
        fetch(connection, schema, CANCEL_FOR_GOOD, id=given)
        return "cancelled"
    if found.status == "delivered" or found.confirmed_late:
        return "too_late"
    if found.live == "sending":
        fetch(connection, schema, REQUEST_CANCEL_IF_SENDING, id=given)
        return "requested"
    if found.uncertain:
        if found.status == "live":
            fetch(connection, schema, REVIEW_IF_UNCERTAIN, id=given, letter_id=str(uuid7()))
        else:
            fetch(connection, schema, NOTE_CANCEL_IF_DEAD, id=given)
        return "maybe_sent"
    if not fetch(connection, schema, CANCEL_IF_NOT_SENDING, id=given):
        raise Refused(f"reminder {reminder_id} is {found.status}: nothing is left to cancel")
    return "cancelled"


def reschedule(
    connection: CallersConnection,
    schema: str,
    reminder_id: UUID,
    *,
    due_at: datetime,
    zone: str | None,
    expires_at: datetime | None,
) -> ScheduledReminder:
    """Move in the caller's transaction; see `reminders.reschedule`. `due_at` and `expires_at` are UTC."""
    found = _lock(connection, schema, reminder_id)
    if found.status == "delivered" or found.confirmed_late:
        raise Refused(f"reminder {reminder_id} is already delivered; schedule another one, with its own slot")
    if found.live == "sending":
        raise Refused(f"reminder {reminder_id} is being sent right now; try again when the claim has ended")
    if found.uncertain:
        raise Refused(
            f"reminder {reminder_id} may already have been sent (an earlier attempt's outcome is unknown); it is for review, not for rescheduling"
        )
    if (
        found.live is not None
        and found.due_at == due_at
        and zone in {None, found.zone}
        and expires_at in {None, found.expires_at}
    ):
        return ScheduledReminder(reminder_id, found.delivery_key, due_at, found.live, found.version, created=False)
    if expires_at is None and found.expires_at is not None:
        expires_at = _moved("expires_at", found.expires_at, due_at - found.due_at)
    if expires_at is not None and expires_at <= due_at:
        raise InvalidInput("expires_at", "must be later than due_at")
    new_version = found.version + 1
    new_key = delivery_key(bytes(found.identity_key), new_version)
    fetch(
        connection,
        schema,
        MOVE_IF_NOT_SENDING,
        id=str(reminder_id),
        due_at=due_at,
        zone=zone,
        expires_at=expires_at,
        version=found.version,
        new_key=new_key,
    )
    return ScheduledReminder(reminder_id, new_key, due_at.astimezone(UTC), "pending", new_version, created=False)


def _lock(connection: CallersConnection, schema: str, reminder_id: UUID) -> Standing:
    held = fetch(connection, schema, LOCK, id=str(reminder_id))
    found = _standing(connection, schema, reminder_id)
    if found.status == "live" and not held:
        # Redriven or rescheduled while we waited: its new row of `due` is not locked yet, and the look before this one
        # did not see it. Nobody can revive it again while we hold the other row.
        fetch(connection, schema, LOCK, id=str(reminder_id))
        found = _standing(connection, schema, reminder_id)
    return found


def _standing(connection: CallersConnection, schema: str, reminder_id: UUID) -> Standing:
    rows = fetch(connection, schema, STANDING, id=str(reminder_id))
    if not rows:
        raise not_found(connection, schema, reminder_id)
    return Standing(*rows[0])


def _moved(field: str, instant: datetime, by: timedelta) -> datetime:
    try:
        return checked_instant(field, instant.astimezone(UTC) + by)
    except OverflowError:
        raise InvalidInput(field, "would move beyond the last year; give it as well") from None

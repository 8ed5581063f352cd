"""What an application calls, inside its own transaction.

Every function takes the caller's connection: a SQLAlchemy `Session` or `Connection`, or a psycopg2 connection. None of
them commits, rolls back, opens a connection or changes the session; an error of ours leaves the transaction usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from typing import Any
from uuid import UUID

from reminders import settings as settings_module
from reminders.domain.errors import Conflict, InvalidInput, SettingsError
from reminders.domain.request import checked_flag, checked_instant, checked_text
from reminders.ledger import changing, reading, scheduling
from reminders.ledger.allowed_places import allowed_to
from reminders.ledger.caller import CallersConnection
from reminders.ledger.changing import CancelledMany, CancelResult
from reminders.ledger.reading import Reminder
from reminders.ledger.scheduling import ScheduledReminder
from reminders.pipeline.provider import Provider
from reminders.pipeline.schedule import resolve_instant, to_request
from reminders.providers import registry
from reminders.providers.unsubscribe import Unsubscription, read_token
from reminders.settings import Settings

MOST_AT_ONCE = 1000
MOST_CANCELLED = 10_000
"""Reminders that one call of `cancel_where` may lock."""


@lru_cache(maxsize=1)
def _settings() -> Settings:
    return settings_module.load()


def _provider(channel: str) -> Provider:
    return registry.load(channel, _settings())


def schedule(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str,
    kind: str,
    channel: str,
    destination: str,
    due_at: datetime,
    zone: str | None = None,
    reference: str | None = None,
    slot: str | None = None,
    data: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> ScheduledReminder:
    """Schedule one reminder; it exists exactly when the caller's transaction commits.

    `due_at` is an aware datetime, or a naive wall time together with `zone`. `reference` is what the reminder is about
    (an order, an invoice); with tenant, user, kind, channel and `slot` it identifies the reminder, so that scheduling
    it again returns the row as it stands with `created=False`. Without a reference the instant takes its place.
    `expires_at` is when sending has become worse than not sending.

    Raises `InvalidInput` naming the field, or `Conflict` if the same reminder stands with other content.
    """
    request = to_request(
        _provider,
        partial(allowed_to, connection, _settings().schema),
        tenant_id=tenant_id,
        user_id=user_id,
        kind=kind,
        channel=channel,
        destination=destination,
        due_at=due_at,
        zone=zone,
        reference=reference,
        slot=slot,
        data=data,
        expires_at=expires_at,
    )
    answer = scheduling.insert(connection, _settings().schema, [request], {channel: _provider(channel).deduplicates})[0]
    if isinstance(answer, Conflict):
        raise answer
    return answer


def schedule_many(connection: CallersConnection, reminders: Iterable[Mapping[str, Any]]) -> list[ScheduledReminder]:
    """Schedule many, each given as the keyword arguments of `schedule`, a thousand in one round trip.

    All are checked before the first is written. Raises `InvalidInput` for the first that fails, or `Conflict` for one
    that does, with its position in the text; after a `Conflict` others are already part of the transaction.
    """
    if isinstance(reminders, Mapping | str) or not isinstance(reminders, Iterable):
        raise InvalidInput("reminders", f"must be several mappings, not {type(reminders).__name__}")
    requests = []
    places = cache(partial(allowed_to, connection, _settings().schema))
    for position, reminder in enumerate(reminders):
        try:
            requests.append(to_request(_provider, places, **reminder))
        except TypeError as error:
            raise InvalidInput(f"reminders[{position}]", str(error).replace("to_request()", "schedule()")) from None
        except InvalidInput as error:
            raise InvalidInput(f"reminders[{position}].{error.field}", error.reason) from None
    deduplicates = {channel: _provider(channel).deduplicates for channel in {request.channel for request in requests}}
    # In the order of identity over all round trips: two transactions that schedule the same ones cannot deadlock.
    positions = sorted(range(len(requests)), key=lambda position: requests[position].identity_key)
    answers: dict[int, ScheduledReminder] = {}
    for start in range(0, len(positions), MOST_AT_ONCE):
        batch = positions[start : start + MOST_AT_ONCE]
        found = scheduling.insert(connection, _settings().schema, [requests[each] for each in batch], deduplicates)
        for position, answer in zip(batch, found, strict=True):
            if isinstance(answer, Conflict):
                raise Conflict(f"reminders[{position}]: {answer}")
            answers[position] = answer
    return [answers[position] for position in range(len(requests))]


def cancel(connection: CallersConnection, reminder_id: UUID | str) -> CancelResult:
    """Cancel a reminder in the caller's transaction.

    Returns `cancelled` (no attempt will be made, once the transaction commits), `requested` (an attempt is under way
    right now; none will follow it), `maybe_sent` (an earlier attempt's outcome is unknown; none will follow, and a
    person reviews it) or `too_late` (it is delivered). Cancelling twice gives the same answer.

    Raises `NotFound`; `Refused` for a reminder that has ended in a way that leaves nothing to cancel.
    """
    return changing.cancel(connection, _settings().schema, _uuid(reminder_id))


def cancel_where(
    connection: CallersConnection,
    *,
    tenant_id: str,
    reference: str | None = None,
    user_id: str | None = None,
    kind: str | None = None,
    slot: str | None = None,
    channel: str | None = None,
    at_most: int = 1000,
    dry_run: bool = False,
) -> CancelledMany:
    """Cancel what matches (this invoice was paid; this user has left), in the caller's transaction and one round trip.

    `reference` or `user_id` must be given; what is left out may be anything, `slot=""` means those without one. Each is
    answered as `cancel` would: what had been delivered is `too_late`; what was cancelled before, or has ended so that
    nothing is left to cancel, is not told again. At most `at_most` (1 to 10,000) are locked and answered; if `more` is
    true, call again. What another transaction schedules meanwhile is not seen. With `dry_run` nothing is locked or changed.

    Raises `InvalidInput`.
    """
    wanted = {"tenant_id": tenant_id, "reference": reference, "user_id": user_id, "kind": kind, "channel": channel}
    for field, text in wanted.items():
        if text is not None or field == "tenant_id":
            checked_text(field, text)
    if slot is not None and slot != "":
        checked_text("slot", slot)
    checked_flag("dry_run", dry_run)
    if reference is None and user_id is None:
        raise InvalidInput("reference", "or user_id must be given: a tenant's reminders are not cancelled as a whole")
    if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MOST_CANCELLED:
        raise InvalidInput("at_most", f"must be from 1 to {MOST_CANCELLED:,}")
    return changing.cancel_where(
        connection, _settings().schema, {**wanted, "slot": slot}, at_most=at_most, dry_run=dry_run
    )


def reschedule(
    connection: CallersConnection,
    reminder_id: UUID | str,
    *,
    due_at: datetime,
    zone: str | None = None,
    expires_at: datetime | None = None,
) -> ScheduledReminder:
    """Move a reminder to another time, in the caller's transaction; also revives a cancelled, expired or dead one.

    The version is raised, so that messages already under way for the old time are dropped. Without `expires_at` the
    expiry keeps its distance. Raises `NotFound`; `Refused` while it is being sent, when it may have been sent, or when
    it is delivered; `InvalidInput`.
    """
    due_at = checked_instant("due_at", resolve_instant("due_at", due_at, zone))
    if expires_at is not None:
        expires_at = checked_instant("expires_at", resolve_instant("expires_at", expires_at, zone))
    return changing.reschedule(
        connection, _settings().schema, _uuid(reminder_id), due_at=due_at, zone=zone, expires_at=expires_at
    )


def snooze(
    connection: CallersConnection,
    reminder_id: UUID | str,
    *,
    until: datetime | None = None,
    by: timedelta | None = None,
) -> ScheduledReminder:
    """Put one reminder off, in the caller's transaction: `until` an aware instant, or `by` a span of elapsed time.

    `by` counts from when it is due, or from now if that has passed. Only a reminder that has not ended and is not being
    sent is put off; an occurrence is, and its series is not. The version is raised, as `reschedule` does; the expiry stays.

    Raises `NotFound`; `Refused` while it is being sent, when it may have been sent, and when it has ended; `InvalidInput`
    for a time that is not later than now and than when it is due, or not before `expires_at`.
    """
    if (until is None) == (by is None):
        raise InvalidInput("until", "or by must be given, and not both")
    if until is not None:
        until = checked_instant("until", until)
    elif not isinstance(by, timedelta):
        raise InvalidInput("by", f"must be a timedelta, not {type(by).__name__}")
    return changing.snooze(connection, _settings().schema, _uuid(reminder_id), until=until, by=by)


def get(connection: CallersConnection, reminder_id: UUID | str) -> Reminder:
    """The reminder as it stands, seen from the caller's transaction. Raises `NotFound`."""
    return reading.get(connection, _settings().schema, _uuid(reminder_id))


def verify_unsubscribe(token: str) -> Unsubscription:
    """Whom the token of an unsubscribe link names: tenant, user, kind and channel that are to be left alone.

    For the endpoint at `REMINDERS_UNSUBSCRIBE_URL`, which answers a POST without asking anything else (RFC 8058). It
    needs the `REMINDERS_WEBHOOK_SECRET` of the workers. Raises `InvalidInput("token", ...)` for one that is not ours,
    `SettingsError` without the secret.
    """
    secret = _settings().webhook_secret
    if secret is None:
        raise SettingsError("REMINDERS_WEBHOOK_SECRET is not set: unsubscribe tokens cannot be verified without it")
    return read_token(secret.reveal().encode(), token)


def _uuid(value: UUID | str, field: str = "reminder_id") -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(field, f"{str(value)[:64]!r} is no UUID") from None

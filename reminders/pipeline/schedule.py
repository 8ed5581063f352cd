"""Schedule: from what a caller wrote to a checked request. Writing it is the ledger's, in the caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.allowed_places import AllowedPlaces, nothing_allowed
from reminders.domain.errors import InvalidInput, NotPublic, RemindersError
from reminders.domain.request import LIMITS, ReminderRequest, new_request
from reminders.pipeline.provider import Provider
from reminders.pipeline.tracing import origin

logger = logging.getLogger(__name__)


def to_request(
    providers: Callable[[str], Provider],
    allowed_to: Callable[[str], AllowedPlaces] = nothing_allowed,
    /,
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
) -> ReminderRequest:
    """Check everything and derive the keys. `providers` finds a channel's provider or raises `InvalidInput`.

    `allowed_to` tells which places a tenant is allowed; it is asked only where the destination would be refused.
    """
    due_at = resolve_instant("due_at", due_at, zone)
    if expires_at is not None:
        expires_at = resolve_instant("expires_at", expires_at, zone)
    if not isinstance(channel, str):
        raise InvalidInput("channel", f"must be text, not {type(channel).__name__}")
    provider = providers(channel)
    request = new_request(
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
    check_place(provider, tenant_id, destination, allowed_to)
    return request


def check_place(
    provider: Provider, tenant_id: str, destination: str, allowed_to: Callable[[str], AllowedPlaces]
) -> None:
    """Raise `InvalidInput` unless the tenant's reminders can be delivered there."""
    try:
        provider.check_destination(destination)
    except NotPublic as refusal:
        if not allowed_to(tenant_id).opens(refusal.host):
            raise
    except RemindersError:
        raise
    except Exception as error:  # noqa: BLE001 (another package's)
        # Another package's fault must not end a whole import, and nothing is known to be right about the destination.
        channel = provider.channel
        logger.error("schedule.check_failed channel=%s: %s", channel, origin(error))  # noqa: TRY400 (not its text)
        why = f"could not be checked: the provider of channel {channel} raised {type(error).__name__}"
        raise InvalidInput("destination", why) from None


def resolve_instant(field: str, value: object, zone: str | None) -> datetime:
    """An aware datetime as it is; a naive one as wall time in `zone`. The result may be in any zone."""
    if zone is not None:
        if not isinstance(zone, str) or len(zone) > LIMITS["zone"]:
            raise InvalidInput("zone", "must be the name of an IANA zone, such as Europe/Berlin")
        load_zone(zone)
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is not None:
        return value
    if zone is None:
        raise InvalidInput(field, "is a wall time without an offset; give zone as well, such as zone='Europe/Berlin'")
    try:
        return to_instant(value, zone)
    except OverflowError:
        raise InvalidInput(field, f"is in the year {value.year}, which no zone reaches") from None

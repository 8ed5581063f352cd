"""What an application says about its users, inside its own transaction: what must not be sent, and when.

As in `reminders.api`, every function takes the caller's connection; none of them commits, rolls back, opens a connection or
changes the session, and an error of ours leaves the transaction usable. Each claim goes by what is committed when it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from uuid import UUID

from reminders.api import _provider, _settings
from reminders.calendar.quiet_hours import QuietHours
from reminders.calendar.quiet_hours import quiet_hours as checked_quiet_hours
from reminders.domain.errors import InvalidInput
from reminders.domain.suppressions import read_scope
from reminders.ledger import recipients, suppressing
from reminders.ledger.caller import CallersConnection
from reminders.ledger.recipients import UNCHANGED, Kept
from reminders.ledger.suppressing import Added
from reminders.pipeline.consent import check_channel, check_named

APPLICATION = "application"


def suppress(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str | None = None,
    destination: str | None = None,
    destination_id: UUID | str | None = None,
    channel: str | None = None,
    kind: str | None = None,
    reason: str,
    source: str = APPLICATION,
    actor: str = APPLICATION,
) -> Added:
    """Send nothing any more to a user, or to one destination; of a kind or over a channel, or at all.

    A destination is named by its address, exactly as reminders name it, with its `channel`, or by its id; only the id is
    stored. `reason`, `source` (where it came from: a link, a bounce, a support case) and `actor` stay as evidence and must
    hold no personal data. What stands already is returned with `created=False`. A channel that is not installed, and an
    address that no reminder can have in this spelling, are refused: they would suppress nothing.

    No claim that begins after the transaction has committed succeeds; one that began before may still send. Reminders that
    come due while it stands end as `suppressed`. Raises `InvalidInput` naming the field.
    """
    scope = read_scope(
        tenant_id=tenant_id,
        user_id=user_id,
        destination=destination,
        destination_id=destination_id,
        channel=channel,
        kind=kind,
    )
    check_named(_provider, tenant_id=tenant_id, channel=channel, destination=destination)
    wanted = suppressing.new_suppression(scope, reason=reason, source=source, actor=actor)
    return suppressing.add(connection, _settings().schema, wanted)


def unsuppress(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str | None = None,
    destination: str | None = None,
    destination_id: UUID | str | None = None,
    channel: str | None = None,
    kind: str | None = None,
    reason: str,
    actor: str = APPLICATION,
) -> bool:
    """Lift the suppression of exactly this; False if none stands.

    What comes due from then on is sent. What has ended as `suppressed` stays so, unless it is rescheduled. Raises
    `InvalidInput`.
    """
    scope = read_scope(
        tenant_id=tenant_id,
        user_id=user_id,
        destination=destination,
        destination_id=destination_id,
        channel=channel,
        kind=kind,
    )
    return suppressing.lift(connection, _settings().schema, scope, actor=actor, reason=reason) is not None


def set_recipient(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str,
    zone: str | Kept | None = UNCHANGED,
    locale: str | Kept | None = UNCHANGED,
    quiet_hours: Sequence[time | str] | Kept | None = UNCHANGED,
) -> None:
    """Say in which zone a user is, which language they read, and between which two wall times nothing may reach them.

    What is left out stays as it is; None takes it back. `quiet_hours`, a tuple or list such as `("22:00", "07:00")`, are in
    the user's zone, and need one. What waits for the end of the old hours is looked at again then. Raises `InvalidInput`.
    """
    hours = _hours(quiet_hours)
    recipients.change(connection, _settings().schema, tenant_id, user_id, zone=zone, locale=locale, quiet_hours=hours)


def set_preference(
    connection: CallersConnection,
    *,
    tenant_id: str,
    user_id: str,
    allowed: bool | None,
    kind: str | None = None,
    channel: str | None = None,
    source: str = APPLICATION,
    actor: str = APPLICATION,
) -> None:
    """Record whether a user wants reminders of a kind, over a channel, of a kind over a channel, or any.

    The narrowest word counts: one for kind and channel before one for the kind, before one for the channel, before one for
    all; where none is said, reminders are sent. None takes back what was said of exactly these. Raises `InvalidInput`, also
    for a channel that is not installed, unless something is taken back.
    """
    if allowed is not None:
        check_channel(_provider, channel)
    recipients.prefer(
        connection, _settings().schema, tenant_id, user_id,
        kind=kind, channel=channel, allowed=allowed, source=source, actor=actor,
    )  # fmt: skip


def _hours(given: object) -> QuietHours | Kept | None:
    if given is None or given is UNCHANGED:
        return given
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidInput(
            "quiet_hours", f"must be two wall times, such as ('22:00', '07:00'), not {str(given)[:40]!r}"
        )
    return checked_quiet_hours(*given)

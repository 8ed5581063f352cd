"""Recipients: what is known of a user that a claim goes by. Zone, locale, quiet hours; and what they want and do not want."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time
from enum import Enum
from functools import partial
from typing import Literal

from reminders.calendar.quiet_hours import QuietHours
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput, Refused
from reminders.domain.identity import uuid7
from reminders.domain.request import checked_flag, checked_text
from reminders.ledger.caller import CallersConnection, fetch
from reminders.ledger.database import Database
from reminders.ledger.review import checked_words
from reminders.ledger.series_zones import users_zone_changed
from reminders.ledger.statement import Statement

TRIES = 10
"""How often a word is said anew because another transaction has said otherwise in between."""
_LOCALE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,3}", re.ASCII)

_WHO = {"tenant": "text", "user": "text"}

ENSURE = Statement(
    "recipient_ensure",
    "INSERT INTO {s}.recipients (tenant_id, user_id) VALUES (:tenant, :user) ON CONFLICT DO NOTHING RETURNING 1",
    _WHO,
)

# Whatever was worked out of the old hours is forgotten.
CHANGE_IF_ZONE_IS_KNOWN = Statement(
    "recipient_change",
    """
UPDATE {s}.recipients u
SET zone = CASE WHEN :keep_zone THEN u.zone ELSE :zone END, locale = CASE WHEN :keep_locale THEN u.locale ELSE :locale END,
    quiet_from = CASE WHEN :keep_quiet THEN u.quiet_from ELSE :quiet_from END,
    quiet_to = CASE WHEN :keep_quiet THEN u.quiet_to ELSE :quiet_to END,
    clear_until = NULL, changed_at = clock_timestamp()
WHERE u.tenant_id = :tenant AND u.user_id = :user
  AND (CASE WHEN :keep_quiet THEN u.quiet_from ELSE :quiet_from END IS NULL
       OR CASE WHEN :keep_zone THEN u.zone ELSE :zone END IS NOT NULL)
RETURNING 1
""",
    {
        **_WHO, "zone": "text", "locale": "text", "quiet_from": "time", "quiet_to": "time", "keep_zone": "boolean",
        "keep_locale": "boolean", "keep_quiet": "boolean",
    },
)  # fmt: skip

_PREFERENCE = {**_WHO, "kind": "text", "channel": "text"}
_SAME = "f.tenant_id = :tenant AND f.user_id = :user AND f.kind = :kind AND f.channel = :channel AND f.ended_at IS NULL"
# Also what stands under the name of a user who was erased.
_BEFORE = _SAME.replace("= :user", "IN (:user, {s}.erased_user(:tenant, :user))")

END_PREFERENCE_IF_OTHER = Statement(
    "preference_end",
    f"""
UPDATE {{s}}.preferences f SET ended_at = clock_timestamp()
WHERE {_BEFORE} AND f.allowed IS DISTINCT FROM :allowed
RETURNING 1
""",
    {**_PREFERENCE, "allowed": "boolean"},
)

ADD_PREFERENCE = Statement(
    "preference_add",
    """
INSERT INTO {s}.preferences (id, tenant_id, user_id, kind, channel, allowed, source, actor)
VALUES (:id, :tenant, :user, :kind, :channel, :allowed, :source, :actor)
ON CONFLICT DO NOTHING RETURNING 1
""",
    {**_PREFERENCE, "id": "uuid", "allowed": "boolean", "source": "text", "actor": "text"},
)

STANDING_PREFERENCE = Statement("preference_standing", f"SELECT f.allowed FROM {{s}}.preferences f WHERE {_SAME}", _PREFERENCE)  # fmt: skip

LIST = Statement(
    "list_recipients",
    """
SELECT COALESCE(u.tenant_id, f.tenant_id) AS tenant_id, COALESCE(u.user_id, f.user_id) AS user_id, u.zone, u.locale,
       u.quiet_from, u.quiet_to, u.changed_at
FROM (SELECT * FROM {s}.recipients WHERE (:tenant IS NULL OR tenant_id = :tenant) AND (:user IS NULL OR user_id = :user)) u
FULL JOIN (SELECT DISTINCT tenant_id, user_id FROM {s}.preferences
           WHERE ended_at IS NULL AND (:tenant IS NULL OR tenant_id = :tenant) AND (:user IS NULL OR user_id = :user)) f
       USING (tenant_id, user_id)
ORDER BY 1, 2 LIMIT :limit
""",
    {**_WHO, "limit": "integer"},
)

PREFERENCES = Statement(
    "preferences",
    """
SELECT NULLIF(f.kind, ''), NULLIF(f.channel, ''), f.allowed, f.source, f.actor, f.said_at, f.ended_at
FROM {s}.preferences f
WHERE f.tenant_id = :tenant AND f.user_id = :user AND (:ended OR f.ended_at IS NULL)
ORDER BY f.said_at, f.id
""",
    {**_WHO, "ended": "boolean"},
)


class Unchanged(Enum):
    """Says of a part of a recipient that it stays as it is."""

    UNCHANGED = "unchanged"


UNCHANGED: Literal[Unchanged.UNCHANGED] = Unchanged.UNCHANGED
Kept = Literal[Unchanged.UNCHANGED]


@dataclass(frozen=True, slots=True)
class Recipient:
    """A user as far as anything is known; of one who only has preferences all else is None. `changed_at` is UTC."""

    tenant_id: str
    user_id: str
    zone: str | None
    locale: str | None
    quiet_hours: QuietHours | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Preference:
    """What a user has said of a kind and channel, None for all of them. It stands until `ended_at`. UTC."""

    kind: str | None
    channel: str | None
    allowed: bool
    source: str
    actor: str
    said_at: datetime
    ended_at: datetime | None


def change(
    connection: CallersConnection,
    schema: str,
    tenant_id: str,
    user_id: str,
    *,
    zone: str | Kept | None = UNCHANGED,
    locale: str | Kept | None = UNCHANGED,
    quiet_hours: QuietHours | Kept | None = UNCHANGED,
) -> None:
    """Say what is known of a user, in the caller's transaction; None takes a part back. Raises `InvalidInput`."""
    who = {"tenant": checked_text("tenant_id", tenant_id), "user": checked_text("user_id", user_id)}
    new_zone = _text("zone", zone)
    if new_zone is not None:
        load_zone(new_zone)
    new_locale = _text("locale", locale)
    if new_locale is not None and not _LOCALE.fullmatch(new_locale):
        raise InvalidInput("locale", f"{new_locale[:40]!r} is no language tag; write de, pt-BR or zh-Hant")
    hours = None if quiet_hours is UNCHANGED else quiet_hours
    if not isinstance(hours, QuietHours | None):
        raise InvalidInput("quiet_hours", f"must be QuietHours, not {type(hours).__name__}")
    given = {
        "zone": new_zone,
        "locale": new_locale,
        "quiet_from": hours and hours.start,
        "quiet_to": hours and hours.end,
        "keep_zone": zone is UNCHANGED,
        "keep_locale": locale is UNCHANGED,
        "keep_quiet": quiet_hours is UNCHANGED,
    }
    if hours is None or new_zone is not None:
        # Otherwise one of whom nothing is known is refused, and nothing may be left of it.
        fetch(connection, schema, ENSURE, **who)
    if not fetch(connection, schema, CHANGE_IF_ZONE_IS_KNOWN, **who, **given):
        raise InvalidInput("zone", "is needed as long as there are quiet hours")
    if zone is not UNCHANGED:
        users_zone_changed(partial(fetch, connection, schema), tenant_id, user_id)


def prefer(
    connection: CallersConnection,
    schema: str,
    tenant_id: str,
    user_id: str,
    *,
    kind: str | None,
    channel: str | None,
    allowed: bool | None,
    source: str,
    actor: str,
) -> None:
    """Record what a user wants of a kind and channel (None: of all), in the caller's transaction.

    With `allowed` None nothing is said of exactly these any more. Raises `InvalidInput`; `Refused` if others change it each
    time.
    """
    about = {
        "tenant": checked_text("tenant_id", tenant_id),
        "user": checked_text("user_id", user_id),
        "kind": "" if kind is None else checked_text("kind", kind),
        "channel": "" if channel is None else checked_text("channel", channel),
    }
    said = {"source": checked_words("source", source), "actor": checked_words("actor", actor)}
    if allowed is not None:
        checked_flag("allowed", allowed)
    for _ in range(TRIES):
        fetch(connection, schema, END_PREFERENCE_IF_OTHER, **about, allowed=allowed)
        if allowed is None or fetch(
            connection, schema, ADD_PREFERENCE, **about, **said, id=str(uuid7()), allowed=allowed
        ):
            return
        if fetch(connection, schema, STANDING_PREFERENCE, **about) == [(allowed,)]:
            return
        # Another transaction has said otherwise in between: the last word is this one.
    raise Refused(f"others keep changing this preference of user {user_id}; nothing was written, try again")


def recipients(database: Database, *, tenant: str | None, user: str | None = None, limit: int = 100) -> list[Recipient]:
    """Users of whom anything is known, by tenant and user."""
    # Not `Database.fetch`: it rules out reading a table from end to end.
    with database.transaction() as connection:
        rows = fetch(connection, database.schema, LIST, tenant=tenant, user=user, limit=limit)
    return [
        Recipient(tenant_id, user_id, zone, locale, _hours(start, end), changed_at and changed_at.astimezone(UTC))
        for tenant_id, user_id, zone, locale, start, end, changed_at in rows
    ]


def preferences(database: Database, tenant: str, user: str, *, ended: bool = False) -> list[Preference]:
    """What a user has said and still says, oldest first; with `ended` also what does not stand any more."""
    return [
        Preference(
            kind, channel, allowed, source, actor, said_at.astimezone(UTC), ended_at and ended_at.astimezone(UTC)
        )
        for kind, channel, allowed, source, actor, said_at, ended_at in database.fetch(
            PREFERENCES, tenant=tenant, user=user, ended=ended
        )
    ]


def _hours(start: time | None, end: time | None) -> QuietHours | None:
    return None if start is None or end is None else QuietHours(start, end)


def _text(field: str, given: object) -> str | None:
    """The new text of a part; None where it is taken back, or stays as it is. Raises `InvalidInput`."""
    if given is None or given is UNCHANGED:
        return None
    if not isinstance(given, str):
        raise InvalidInput(field, f"must be text, not {type(given).__name__}")
    return given

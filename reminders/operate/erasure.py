"""Erasing one user: what is personal goes, the proof that something was sent stays, and nothing is ever sent again of it.

An erasure is of the past: what is scheduled for the user after it has begun is not its own. Each step is a transaction of its
own; cut off anywhere, the next run goes on, and finds by the user's id what is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.request import checked_text
from reminders.ledger.database import Database
from reminders.ledger.erasing import addresses as known_addresses
from reminders.ledger.erasing import cancel_live, erase_reminders, still_live, stop_series
from reminders.ledger.erasing_places import erase_places, name_places
from reminders.ledger.erasing_user import erase_calendars, erase_consent, erase_series
from reminders.ledger.erasing_words import erase_files, erase_words, patterns
from reminders.ledger.erasure_records import Erasure, begin, finish, found
from reminders.ledger.review import checked_words

PATIENCE = 45.0
"""Seconds to wait for open claims of the user: longer than a claim, and the look that repairs one."""
STEP = 50
"""Reminders that are cancelled or erased in one transaction."""
_LOOK_EVERY = 0.25
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure came to.

    `touched` counts rows by table, those of earlier runs of the same erasure too. It is `complete` unless `being_sent`
    reminders have an open claim, the last of which ends at `claims_end_at` (UTC), or `files_in_use` settlement files are still
    being read, or the time was over: run it again.
    """

    user_token: str
    touched: dict[str, int]
    complete: bool
    being_sent: int = 0
    claims_end_at: datetime | None = None
    files_in_use: int = 0


def erase(
    database: Database,
    tenant_id: str,
    user_id: str,
    *,
    actor: str,
    reason: str,
    addresses: Sequence[str] = (),
    channel: str | None = None,
    patience: float = PATIENCE,
    seconds: float | None = None,
) -> Erased:
    """Erase a user. Waits up to `patience` seconds for their open claims, and ends after about `seconds`.

    `addresses` are the user's too, on `channel` or on any, though the ledger may not know it any more: its reminders of them were
    purged. What is on record of one goes as that of the others does, unless somebody else's reminder or series has it. Raises `InvalidInput`; `LockNotAvailable` if an application holds one of the rows for long.
    """
    started = time.monotonic()
    tenant, user = checked_text("tenant_id", tenant_id), checked_text("user_id", user_id)
    said = {"actor": checked_words("actor", actor), "reason": checked_words("reason", reason)}
    named = [checked_text("destination", each) for each in addresses]
    on = None if channel is None else checked_text("channel", channel)
    of = begin(database, tenant, user, **said)
    name_places(database, of, named, on)
    upto = stop_series(database, of)
    _cancel_all(database, of, upto)
    live, until = still_live(database, of, upto)
    while live and time.monotonic() < started + patience:
        time.sleep(_LOOK_EVERY)
        live, until = still_live(database, of, upto)
    # While the addresses are still known: once they are gone from the reminders, nobody can look for them elsewhere.
    in_words, in_bytes = patterns([*known_addresses(database, of), *named], user)
    erase_words(database, of, in_words)
    busy = erase_files(database, of, in_bytes)
    if live or busy:
        return _unfinished(of, live, until, busy)
    erase_calendars(database, of)
    erase_series(database, of)
    erase_consent(database, of)
    while erase_reminders(database, of, upto, STEP):
        if seconds is not None and time.monotonic() >= started + seconds:
            return _unfinished(of, 0, None, 0)
    # Crash here, or before: the next run erases what is left, and asks again who has the destinations that are noted.
    erase_places(database, of)
    return Erased(of.token, finish(database, of), complete=True)


def rehearse(database: Database, tenant_id: str, user_id: str) -> dict[str, int]:
    """How many rows, by table, an erasure would find by the user's id. Nothing is changed or locked."""
    return found(database, checked_text("tenant_id", tenant_id), checked_text("user_id", user_id))


def _cancel_all(database: Database, of: Erasure, upto: datetime) -> None:
    after: UUID | None = _FIRST
    while after is not None:
        after = cancel_live(database, of, upto, after, STEP)


def _unfinished(of: Erasure, live: int, until: datetime | None, busy: int) -> Erased:
    return Erased(
        of.token, {}, complete=False, being_sent=live, claims_end_at=until and until.astimezone(UTC), files_in_use=busy
    )

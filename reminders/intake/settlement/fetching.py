"""A settlement file fetched from a web server into the ledger, a slice of seconds at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit
from uuid import UUID

from reminders.domain.errors import InvalidInput
from reminders.intake.settlement.cutting import MalformedFile
from reminders.intake.settlement.formats import Format
from reminders.intake.settlement.receiving import LARGEST_FILE, LostFile, Receiver
from reminders.ledger import settlement_files
from reminders.ledger.database import Database
from reminders.ledger.settlement_files import StoredFile
from reminders.providers.file_fetch import FetchFailed, OutOfTime, fetched

SLICE_SECONDS = 18.0
"""For which one slice is received. What it ends with takes seconds of its own."""
WAITS = (15.0, 30.0, 60.0, 120.0, 240.0)
"""Seconds until the next attempt, after so many that brought nothing; the last one for all that follow."""
MOST_TRIES = 30
"""Attempts in a row that bring nothing. With `WAITS`, nearly two hours: a report may be late."""
LONGEST_FETCH = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Slice:
    """What came of one slice. `more` goes on at once, `later` after `wait` seconds, `over` never."""

    state: Literal["complete", "more", "later", "over"]
    wait: float = 0.0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """How files are fetched. `bearers` has the token of each host that is shown one."""

    allow_private: bool
    bearers: Mapping[str, str]


def shown_name(url: str) -> str:
    """Host and path, as far as they may be shown: a query may hold a permission, and whatever is not an address too."""
    try:
        parts = urlsplit(url)
        name = f"{parts.hostname or ''}{parts.path}"
    except ValueError:
        return "a malformed address"
    return name[:200] if name.isprintable() else "a malformed address"


def fetch_slice(
    database: Database, file_id: UUID, form: Format, access: Access, *, seconds: float = SLICE_SECONDS
) -> Slice:
    """Receive what comes within `seconds`, from where the file stands.

    What is wrong with the file or its address refuses it for good, with the reason in the ledger and in the answer; it
    never names the address. Raises `NotFound` for an unknown file.
    """
    file = settlement_files.read(database, file_id)
    if file.status != "receiving" or file.url is None:
        return Slice("complete" if file.status == "ready" else "over")
    try:
        return _slice(database, file, form, access, seconds)
    except LostFile as error:
        return Slice("over", reason=str(error))
    except (InvalidInput, MalformedFile, FetchFailed) as error:
        return _refused(database, file, str(error))


def _slice(database: Database, file: StoredFile, form: Format, access: Access, seconds: float) -> Slice:
    if datetime.now(UTC) - file.created_at > LONGEST_FETCH:
        raise FetchFailed(f"it did not arrive within {LONGEST_FETCH.total_seconds() / 3600:g} hours", again=False)
    started = time.monotonic()
    receiver = Receiver(database, file, form)
    if file.total is not None and file.size == file.total:
        receiver.complete()
        return Slice("complete")
    assert file.url is not None
    may_go_on = file.etag is not None
    try:
        with fetched(
            file.url,
            seconds=seconds,
            most=LARGEST_FILE,
            allow_private=access.allow_private,
            start=file.size,
            validator=file.etag,
            bearers=access.bearers,
        ) as coming:
            may_go_on = coming.validator is not None
            receiver.total, receiver.etag = coming.size, coming.validator
            for piece in coming.pieces():
                receiver.take(piece)
        receiver.total = receiver.size
    except FetchFailed as failure:
        if not failure.again:
            raise
        if receiver.size == file.size:
            return _tried(database, file, failure)
        if not may_go_on:
            raise FetchFailed(_without_ranges(failure, seconds), again=False) from None
        receiver.keep()
        return Slice("more")
    if time.monotonic() - started > seconds / 2:
        # To complete a large file takes seconds of its own.
        receiver.keep()
        return Slice("more")
    receiver.complete()
    return Slice("complete")


def _without_ranges(failure: FetchFailed, seconds: float) -> str:
    what = f"it did not come within {seconds:g} s" if isinstance(failure, OutOfTime) else str(failure)
    return f"{what}, and its server cannot send the rest alone (that takes ranges and a strong ETag)"


def _tried(database: Database, file: StoredFile, failure: FetchFailed) -> Slice:
    tries = settlement_files.note_try(database, file.id, file.size)
    if tries is None:
        return Slice("over", reason="another process receives this file")
    if tries >= MOST_TRIES:
        return _refused(database, file, f"{failure}, {tries} times")
    return Slice("later", WAITS[min(tries, len(WAITS)) - 1], str(failure))


def _refused(database: Database, file: StoredFile, reason: str) -> Slice:
    reason = " ".join(reason.split())[:500]
    settlement_files.refuse(database, file.id, reason, told=True)
    return Slice("over", reason=reason)

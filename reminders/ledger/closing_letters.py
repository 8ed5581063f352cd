"""Closing dead letters by an operator's word: sent again, given up, or known to have (not) arrived.

Each action is one short transaction: lock the reminders, look again, move, and say of everything else why it stays.
Two at once share the rows between them, and neither waits for the other or for an application.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput
from reminders.domain.identity import uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database, Row
from reminders.ledger.letter_moves import (
    DISCARD,
    EXAMINE,
    PICK,
    REDRIVE,
    RESOLVE_DELIVERED,
    RESOLVE_NOT_SENT,
    SETTLE,
    Move,
)
from reminders.ledger.letter_standing import Action, Refusal
from reminders.ledger.review import LetterFilter, Resolution, checked_words

# What is locked first and looked at afterwards must be seen as committed by then, whatever the database's default is.
_BEGIN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off"
_BEGIN_COUNTING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off"
MOST_AT_ONCE = 1_000_000
"""Reminders that one action may move, in one transaction."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an action did, or in a dry run would do.

    `done` are the reminders it moved. `confirmed_late` ended as delivered instead: an attempt of theirs had reported its
    success late. `stay` counts the others that were named or matched, and `refused` says of the first of them why.
    `last_wake_at` is the turn of the last one that was sent again, UTC.
    """

    done: list[UUID]
    confirmed_late: list[UUID]
    stay: int
    refused: list[Refusal]
    last_wake_at: datetime | None = None

    def fields(self, what: str, *, dry_run: bool) -> dict[str, Any]:
        """For JSON; `what` names the count of those done."""
        return {
            what: len(self.done),
            "stay": self.stay,
            "dry_run": dry_run,
            "reminder_ids": [str(each) for each in self.done],
            "confirmed_late": [str(each) for each in self.confirmed_late],
            "refused": [
                {
                    "id": str(each.id),
                    "letter_id": None if each.letter_id is None else str(each.letter_id),
                    "reason": each.reason,
                    "detail": each.detail,
                }
                for each in self.refused
            ],
            "last_wake_at": None if self.last_wake_at is None else instant_text(self.last_wake_at),
        }


def redrive(
    database: Database,
    wanted: LetterFilter,
    *,
    actor: str = "",
    reason: str = "",
    limit: int = 1000,
    checked: bool = False,
    ignore_expiry: bool = False,
    rate: float | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Answer:
    """Send again what was given up, oldest first: a fresh budget of attempts under the same key and body.

    Chosen are reminders whose letter is open, or resolved as not sent. `checked` is the operator's word that a person
    made sure that those of unknown outcome were not sent. `ignore_expiry` also takes those that have expired, with or
    without a letter; all that are sent under it never expire any more, and their letter keeps the expiry it lifted.
    `rate`, per second, spreads them from now on. `now` replaces the database's clock in tests.

    Raises `InvalidInput` without `actor` and `reason`, save in a dry run.
    """
    given = {"checked": checked, "ignore_expiry": ignore_expiry, "spacing": 0.0 if rate is None else 1.0 / rate}
    return _carry_out(database, REDRIVE, wanted, _said(actor, reason, dry_run), limit, **given, now=now)


def discard(
    database: Database,
    wanted: LetterFilter,
    *,
    actor: str = "",
    reason: str = "",
    limit: int = 1000,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Answer:
    """Give up for good: the reminder stays dead, and no redrive takes it any more; only `reschedule` revives it.

    Chosen as by `redrive`. Raises `InvalidInput` without `actor` and `reason`, save in a dry run.
    """
    return _carry_out(database, DISCARD, wanted, _said(actor, reason, dry_run), limit, now=now)


def resolve(
    database: Database,
    wanted: LetterFilter,
    resolution: Resolution,
    *,
    reference: str | None = None,
    note: str | None = None,
    actor: str = "",
    reason: str = "",
    limit: int = 1000,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Answer:
    """Put on record what a person found out about open letters.

    `delivered` ends the reminder as delivered; `reference` says what proves it. `not_sent` ends the uncertainty and the
    letter; the reminder stays dead, for a redrive to send, or is cancelled if somebody had asked for that. By id, what
    was resolved as not sent can be corrected to `delivered`. Raises `InvalidInput` without `actor` and `reason`, save in
    a dry run; for `delivered` without `reference`, and for `not_sent` with one.
    """
    if resolution not in ("delivered", "not_sent"):
        raise InvalidInput("resolution", "must be delivered or not_sent")
    if (resolution == "delivered") != (reference is not None):
        raise InvalidInput("resolution", "delivered needs a reference, and not_sent takes none")
    given = {
        "resolution": resolution,
        "reference": None if reference is None else checked_words("resolution_reference", reference),
        "note": None if note is None else checked_words("note", note),
    }
    move = RESOLVE_DELIVERED if resolution == "delivered" else RESOLVE_NOT_SENT
    return _carry_out(database, move, wanted, _said(actor, reason, dry_run), limit, **given, now=now)


def _said(actor: str, reason: str, dry_run: bool) -> dict[str, str] | None:
    """Who says so and why, as claimed, and the host it runs on; None in a dry run."""
    if dry_run:
        return None
    return {
        "actor": checked_words("actor", actor),
        "reason": checked_words("reason", reason),
        "host": socket.gethostname(),
    }


def _carry_out(
    database: Database, move: Move, wanted: LetterFilter, said: dict[str, str] | None, limit: int, **more: Any
) -> Answer:
    if not isinstance(limit, int) or not 1 <= limit <= MOST_AT_ONCE:
        raise InvalidInput("limit", f"must be between 1 and {MOST_AT_ONCE:,}")
    action = move.action
    given = {**wanted.parameters(), **more, "limit": limit}
    with database.transaction() as connection:
        run = partial(fetch, connection, database.schema)
        with connection.cursor() as cursor:
            cursor.execute(_BEGIN_COUNTING if said is None else _BEGIN)
        if said is None:
            return _rehearsed(run, action, given)
        held = [row[0] for row in run(PICK[action], **given)]
        late, moved = [], []
        if held:
            these = {**given, **said, "ids": given["ids"] or held, "held": held}
            late = [row[0] for row in run(SETTLE[action], **these)]
            moved = run(move.statement, **these, letter_ids=[str(uuid7()) for _ in held])
        done = [*late, *(row[0] for row in moved)]
        left, refused, stay = _examined(run, action, given, done)
        # Crash here: nothing is committed, and every letter is as before; after it, the ledger sends what was redriven.
    why_left = "limit" if len(held) == limit else "busy"
    refused += [replace(each, reason=each.reason or why_left) for each in left]
    wakes = [row[1].astimezone(UTC) for row in moved if len(row) > 1]
    ids = [UUID(row[0]) for row in moved]
    return Answer(ids, [UUID(each) for each in late], stay, refused[:limit], max(wakes, default=None))


def _rehearsed(run: Callable[..., list[Row]], action: Action, given: dict[str, Any]) -> Answer:
    """What `_carry_out` would come to now, if nobody held a row. Nothing is locked."""
    movable, refused, found = _examined(run, action, given, [])
    late = [each.id for each in movable if each.reason == "confirmed_late"]
    done = [each.id for each in movable if each.reason != "confirmed_late"]
    return Answer(done, late, found - len(movable), refused)


def _examined(
    run: Callable[..., list[Row]], action: Action, given: dict[str, Any], done: list[str]
) -> tuple[list[Refusal], list[Refusal], int]:
    """What may be moved, what may not, and how many there are in all, save those that are done."""
    rows = run(EXAMINE[action], **given, done=done)
    sides: dict[bool, list[Refusal]] = {True: [], False: []}
    counts = dict.fromkeys(sides, 0)
    for id_, letter_id, verdict, movable, of_these in rows:
        counts[movable] = of_these
        sides[movable].append(Refusal(UUID(id_), None if letter_id is None else UUID(letter_id), verdict or ""))
    return sides[True], sides[False], sum(counts.values())

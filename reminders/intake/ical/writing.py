"""Bringing a calendar's changes into the ledger, some hundreds in one transaction; with a dry run, none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import Conflict, NotFound, Refused, RemindersError
from reminders.domain.identity import uuid7
from reminders.domain.request import ReminderRequest
from reminders.intake.ical.comparing import Changes, Known, Owner, Wanted, again
from reminders.intake.records import Reject
from reminders.ledger import calendar_revisions, calendars, changing, scheduling
from reminders.ledger.calendars import Entry

KEPT = timedelta(days=7)
"""For how long after its time an entry outlives its purged reminder."""
BATCH = 500
"""Reminders written in one transaction."""
Item = TypeVar("Item")


@dataclass(slots=True)
class CalendarTotals:
    """What an import came to. `read` is the sum of all others but `cancelled` and `requested`, which no line asks for.

    `events` counts VEVENTs. `moved` are those that have another time or content; `requested` those that are being sent, or
    may have been, while their event is gone.
    """

    events: int = 0
    read: int = 0
    scheduled: int = 0
    existing: int = 0
    moved: int = 0
    cancelled: int = 0
    requested: int = 0
    rejected: int = 0
    skipped: int = 0


class CalendarWriter:
    """Writes the changes of one calendar. Whatever is broken off is simply imported again."""

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[DriverConnection]],
        schema: str,
        owner: Owner,
        *,
        deduplicates: bool,
        now: datetime,
        dry: bool,
    ) -> None:
        """`now` is UTC: what was moved to a time before it does not ring again."""
        self.totals = CalendarTotals()
        self.rejects: list[Reject] = []
        self._transaction = transaction
        self._schema = schema
        self._calendar = owner.calendar_id
        self._about = owner.about
        self._deduplicates = {owner.channel: deduplicates}
        self._now = now
        self._dry = dry
        self._import = uuid7()

    def known(self) -> Known:
        """What earlier imports made. From here on an older import of the calendar that still runs gives way."""
        with self._transaction() as connection:
            if not self._dry:
                calendars.begin(connection, self._schema, self._calendar, self._import, self._about)
            entries = calendars.entries(connection, self._schema, self._calendar)
            revisions = calendar_revisions.revisions(connection, self._schema, self._calendar)
            return Known({entry.entry_key: entry for entry in entries}, dict(revisions))

    def write(self, changes: Changes) -> None:
        """Raises `RemindersError` if a newer import of the calendar has begun; what is committed by then stays."""
        # Crash here, or anywhere: a batch's reminders and entries are there as a whole or not at all, and the next import
        # finds what is missing. What is gone comes last, so that a part of the work never cancels what the rest would keep.
        self.totals.existing += changes.existing
        for changed in _parts(changes.changed):
            with self._batch() as connection:
                self._save(connection, [self._bring(connection, *each) for each in changed])
        for new in _parts(changes.new):
            with self._batch() as connection:
                self._save(connection, self._make(connection, new))
        for gone in _parts(changes.gone):
            with self._batch() as connection:
                self._save(connection, [each for entry in gone for each in self._cancel(connection, entry)])
        if self._dry:
            return
        for told in _parts(changes.told):
            with self._batch() as connection:
                calendar_revisions.save(connection, self._schema, self._calendar, told)
        with self._batch() as connection:
            calendars.prune(connection, self._schema, self._calendar, self._now - KEPT)

    @contextmanager
    def _batch(self) -> Iterator[DriverConnection]:
        try:
            with self._transaction() as connection:
                if not self._dry and not calendars.still_ours(connection, self._schema, self._calendar, self._import):
                    raise RemindersError("A newer import of this calendar has begun, and goes on instead of this one")
                yield connection
                if self._dry:
                    raise _Undone
        except _Undone:
            pass

    def _save(self, connection: DriverConnection, entries: Sequence[Entry]) -> None:
        if entries and not self._dry:
            calendars.save(connection, self._schema, self._calendar, entries)

    def _make(self, connection: DriverConnection, new: Sequence[Wanted]) -> list[Entry]:
        answers = self._insert(connection, [wanted.request for wanted in new])
        refused = [wanted for wanted, answer in zip(new, answers, strict=True) if isinstance(answer, Conflict)]
        over = calendars.purged(connection, self._schema, [each.entry_key for each in refused]) if refused else set()
        made = []
        for wanted, answer in zip(new, answers, strict=True):
            if not isinstance(answer, Conflict):
                if answer.created:
                    self.totals.scheduled += 1
                    made.append(wanted.entry(answer.id))
                else:
                    # Somebody else's: another calendar's, or an application's.
                    self.totals.existing += 1
            elif wanted.entry_key in over and wanted.request.due_at > self._now:
                made.append(wanted.entry(self._ring_again(connection, wanted)))
                self.totals.scheduled += 1
            else:
                self.totals.rejected += 1
                self.rejects.append(
                    Reject(wanted.line, "UID", f"{answer} (another calendar or an application made it)")
                )
        return made

    def _bring(self, connection: DriverConnection, entry: Entry, wanted: Wanted) -> Entry:
        reminder = entry.reminder_id
        if not entry.ended and calendars.is_cancelled(connection, self._schema, reminder):
            # By a person: the calendar does not bring it back.
            self.totals.existing += 1
            return wanted.entry(reminder)
        try:
            calendars.bring(connection, self._schema, reminder, wanted.request)
        except (Refused, NotFound):
            if wanted.request.due_at <= self._now:
                self.totals.existing += 1
                return wanted.entry(reminder)
            reminder = self._ring_again(connection, wanted)
        self.totals.moved += 1
        return wanted.entry(reminder)

    def _ring_again(self, connection: DriverConnection, wanted: Wanted) -> UUID:
        request = again(wanted)
        answer = self._insert(connection, [request])[0]
        if isinstance(answer, Conflict):
            raise answer
        if not answer.created and answer.status == "cancelled":
            calendars.bring(connection, self._schema, answer.id, request)
        return answer.id

    def _cancel(self, connection: DriverConnection, entry: Entry) -> list[Entry]:
        """The entry as it is then; none if a person had cancelled its reminder, which stays so."""
        if calendars.is_cancelled(connection, self._schema, entry.reminder_id):
            return []
        try:
            answer = changing.cancel(connection, self._schema, entry.reminder_id)
        except (Refused, NotFound):
            return []
        if answer == "cancelled":
            self.totals.cancelled += 1
        elif answer != "too_late":
            self.totals.requested += 1
        return [replace(entry, ended=True)]

    def _insert(
        self, connection: DriverConnection, requests: Sequence[ReminderRequest]
    ) -> list[scheduling.ScheduledReminder | Conflict]:
        return scheduling.insert(connection, self._schema, requests, self._deduplicates)


class _Undone(Exception):
    """Ends the transaction of a dry run."""


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
